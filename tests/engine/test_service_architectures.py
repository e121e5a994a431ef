"""The engine's door with every architecture: prompts through chat templates, and answers that no tier changes."""

from collections.abc import Mapping
from dataclasses import replace
import json
from pathlib import Path
import shutil

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import (
    CallRecord,
    ChatRequest,
    Delta,
    FinishDelta,
    Message,
    Purpose,
    TextPart,
    ToolSpec,
)
from tests.engine.chat.model_folders import HERMES_TEMPLATE, QWEN_TEMPLATE
from tests.engine.models.oracles import KINDS, make, publish

CONFIG = EngineConfig(
    dtype="float32", context_length=2_048, prompt_cache_bytes=256 << 20
)
VOCAB_SIZE = 2_560
TOOLS = (
    ToolSpec(
        name="HassTurnOn",
        description="Turns on a device",
        parameters={"type": "object", "properties": {"name": {"type": "string"}}},
    ),
)


def template_of(kind: str) -> Path:
    """The template of the family: calls in the XML-like form from Qwen3.5 on, in JSON before."""
    return QWEN_TEMPLATE if kind.startswith("qwen3_5") else HERMES_TEMPLATE


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Whole model folders: weights, tokenizer and chat template."""
    folders = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        publish(folder, kind, make(kind, {"vocab_size": VOCAB_SIZE}))
        for name in (
            "tokenizer.json",
            "tokenizer_config.json",
            "generation_config.json",
        ):
            shutil.copyfile(NANO_PATH / name, folder / name)
        shutil.copyfile(template_of(kind), folder / "chat_template.jinja")
        folders[kind] = folder
    return folders


def ask(question: str, purpose: Purpose = Purpose.VOICE) -> ChatRequest:
    parts = (
        TextPart(text="You control a house. " * 20, segment="house"),
        TextPart(text="You are in the Kitchen.", segment="device"),
    )
    return ChatRequest(
        messages=(
            Message(role="system", content=parts),
            Message(role="user", content=question),
        ),
        tools=TOOLS,
        sampling=SamplingParams(temperature=0.0, max_tokens=12),
        purpose=purpose,
        session="Kitchen",
    )


async def answer(engine: Engine, question: str) -> tuple[list[Delta], CallRecord]:
    """All that an answer says, and what it cost."""
    deltas = [delta async for delta in engine.generate(ask(question))]
    return [
        delta for delta in deltas if not isinstance(delta, FinishDelta)
    ], engine.status().records[-1]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_tier_gives_the_answer_of_an_engine_that_keeps_nothing(
    tmp_path: Path, folders: Mapping[str, Path], kind: str
) -> None:
    question = "Turn on the lights"
    forgetful = Engine.load(folders[kind], replace(CONFIG, prompt_cache_bytes=0))
    expected, record = await answer(forgetful, question)
    assert expected
    assert record.usage.reused_tokens == 0
    forgetful.close()

    config = replace(CONFIG, cache_folder=tmp_path)
    engine = Engine.load(folders[kind], config)
    warmed = await engine.warm_up(ask("", Purpose.WARM_UP))
    from_slot, record = await answer(engine, question)
    # A think block that is spelled out takes more of nano's tokens.
    around = 15 if template_of(kind) == QWEN_TEMPLATE else 12
    assert record.usage.reread_tokens <= record.usage.question_tokens + around
    assert from_slot == expected
    await answer(engine, "Hello")
    engine.close()

    engine = Engine.load(folders[kind], config)
    from_disk, record = await answer(engine, question)
    engine.close()
    assert from_disk == expected
    assert (record.resumed_from, record.usage.reused_tokens) == (
        "disk",
        warmed.prompt_tokens,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_checked_without_its_weights(
    folders: Mapping[str, Path], kind: str
) -> None:
    summary = Engine.check(folders[kind])
    config = json.loads((folders[kind] / "config.json").read_text())
    assert summary.architecture == config["model_type"]
    assert (summary.vocab_size, summary.context_length) == (VOCAB_SIZE, 4096)

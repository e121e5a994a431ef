"""Conversations of several turns through the door: what they reuse, and that none leaks into another."""

from collections.abc import Iterator
from pathlib import Path
import shutil

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import (
    ChatRequest,
    ContentDelta,
    Delta,
    FinishDelta,
    Message,
)
from tests.engine.houses import house_text

CONFIG = EngineConfig(
    dtype="float32", context_length=8_192, prompt_cache_bytes=256 << 20
)
QWEN_TEMPLATE = (
    Path(__file__).parent / "chat" / "fixtures" / "qwen3.5_chat_template.jinja"
)
# <think>, a free line, </think> and another, spelled out.
THINK_BLOCK_TOKENS = 11
SYSTEM = Message(role="system", content=house_text())


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine.load(NANO_PATH, CONFIG)
    yield engine
    engine.close()


@pytest.fixture
def qwen_engine(tmp_path: Path) -> Iterator[Engine]:
    """The built-in model under a template that drops the empty think block from the history."""
    folder = tmp_path / "model"
    shutil.copytree(NANO_PATH, folder)
    shutil.copy(QWEN_TEMPLATE, folder / "chat_template.jinja")
    engine = Engine.load(folder, CONFIG)
    yield engine
    engine.close()


async def turn(engine: Engine, session: str, *spoken: str) -> list[Delta]:
    """Ask with a history of alternating questions and answers."""
    roles = ("user", "assistant")
    messages = [SYSTEM] + [
        Message(role=roles[index % 2], content=text)  # type: ignore[arg-type]
        for index, text in enumerate(spoken)
    ]
    sampling = SamplingParams(temperature=0.0, max_tokens=12)
    request = ChatRequest(messages=messages, sampling=sampling, session=session)
    return [delta async for delta in engine.generate(request)]


async def test_a_second_turn_reuses_the_first_question_though_its_think_block_is_gone(
    qwen_engine: Engine,
) -> None:
    """A checkpoint lies where the history leaves the prompt that was answered."""
    first = (await turn(qwen_engine, "kitchen", "hello"))[-1]
    second = (await turn(qwen_engine, "kitchen", "hello", "Hi!", "thank you"))[-1]
    assert isinstance(first, FinishDelta)
    assert isinstance(second, FinishDelta)
    assert second.usage.reused_tokens == first.usage.prompt_tokens - THINK_BLOCK_TOKENS


async def test_conversations_in_turn_do_not_leak_into_each_other(
    engine: Engine,
) -> None:
    """X, Y and X again: each answer is what a fresh engine gives."""
    turns = {
        "X": ("turn on the kitchen ceiling light", "Turned on.", "thank you"),
        "Y": ("turn off the office floor lamp", "Turned off.", "hello"),
    }
    mixed = [
        await turn(engine, session, *turns[session][:length])
        for session, length in [("X", 1), ("Y", 1), ("X", 3), ("Y", 3), ("X", 1)]
    ]
    fresh = Engine.load(NANO_PATH, CONFIG)
    alone = [
        await turn(fresh, session, *turns[session][:length])
        for session, length in [("X", 1), ("X", 3), ("Y", 1), ("Y", 3)]
    ]
    fresh.close()
    words = [
        "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta))
        for deltas in (*mixed, *alone)
    ]
    assert words[:5] == [words[5], words[7], words[6], words[8], words[5]]
    assert words[6]

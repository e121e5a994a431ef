"""Answers that are held to a schema or to their tools, through the door."""

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
from typing import Any

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import (
    ChatRequest,
    ContentDelta,
    Delta,
    FinishDelta,
    FinishReason,
    InvalidToolCallDelta,
    Message,
    ToolCallDelta,
    ToolSpec,
)
from tests.engine.chat.model_folders import write_qwen_like_folder
from tests.engine.chat.schemas import satisfies
from tests.engine.houses import house_text
from tests.engine.models.checkpoints import (
    TEXT_CONFIG,
    make_oracle,
    tensors_of,
    write_checkpoint,
)

CONFIG = EngineConfig(
    dtype="float32", context_length=4_096, prompt_cache_bytes=64 << 20
)
SYSTEM = Message(role="system", content=house_text(("Kitchen",)))
STRING = {"type": "string", "maxLength": 9}
SCHEMA = {
    "type": "object",
    "properties": {
        "Room": {"enum": ["Kitchen", "Büro"]},
        "on": {"type": "boolean"},
        "levels": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 100},
            "minItems": 1,
            "maxItems": 3,
        },
        "note": {"anyOf": [STRING, {"type": "null"}]},
    },
    "required": ["Room", "on", "levels", "note"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec(
        name="intent__HassTurnOn",
        description="",
        parameters={
            "type": "object",
            "properties": {
                "name": {"enum": ["Lamp", "寝室"]},
                "domain": {
                    "type": "array",
                    "items": {"enum": ["light", "fan"]},
                    "maxItems": 2,
                },
            },
            "required": ["name"],
        },
    ),
    ToolSpec(name="llm__GetDateTime", description=""),
)


@pytest.fixture(scope="module")
def nano() -> Iterator[Engine]:
    engine = Engine.load(NANO_PATH, CONFIG)
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=["qwen", "hermes"])
def wild(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """A model that was trained for nothing, for each form of calls; its vocabulary is padded."""
    folder = tmp_path_factory.mktemp("wild")
    template = Path(__file__).parent / "chat" / "fixtures"
    name = {
        "qwen": "qwen3.5_chat_template.jinja",
        "hermes": "hermes_chat_template.jinja",
    }
    write_qwen_like_folder(folder, template / name[request.param])
    sizes = json.loads((folder / "config.json").read_text())["text_config"]
    config = {**TEXT_CONFIG, **sizes}
    write_checkpoint(folder, tensors_of(make_oracle(config)), config)
    engine = Engine.load(folder, CONFIG)
    yield engine
    engine.close()


def ask(
    question: str,
    seed: int = 0,
    temperature: float = 1.5,
    max_tokens: int = 400,
    **fields: object,
) -> ChatRequest:
    sampling = SamplingParams(
        temperature=temperature, top_k=0, top_p=1.0, seed=seed, max_tokens=max_tokens
    )
    messages = (SYSTEM, Message(role="user", content=question))
    return ChatRequest(messages=messages, sampling=sampling, **fields)  # type: ignore[arg-type]


async def collect(engine: Engine, request: ChatRequest) -> list[Delta]:
    return [delta async for delta in engine.generate(request)]


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta))


def finish(deltas: list[Delta]) -> FinishDelta:
    assert isinstance(deltas[-1], FinishDelta)
    return deltas[-1]


async def test_wild_answers_satisfy_their_schema(wild: Engine) -> None:
    """Also at random: whatever ends by itself is what was asked for."""
    answers = [
        await collect(wild, ask("How is the kitchen?", seed, answer_schema=SCHEMA))
        for seed in range(12)
    ]
    ended = [deltas for deltas in answers if finish(deltas).reason is FinishReason.STOP]
    assert len(ended) > 8
    for deltas in ended:
        assert satisfies(json.loads(said(deltas)), SCHEMA)


async def test_wild_calls_are_whole_and_of_known_tools(wild: Engine) -> None:
    """Nothing that is called is malformed, unless the longest answer cuts it off."""
    schemas = {tool.name: tool.parameters for tool in TOOLS}
    answers = [
        await collect(
            wild, ask("Lamp on", seed, tools=TOOLS, answer_schema={"const": 1})
        )
        for seed in range(16)
    ]
    calls = [
        delta.tool_call
        for deltas in answers
        for delta in deltas
        if isinstance(delta, ToolCallDelta)
    ]
    invalid = [
        deltas
        for deltas in answers
        if any(isinstance(delta, InvalidToolCallDelta) for delta in deltas)
    ]
    assert calls
    assert all(satisfies(dict(call.arguments), schemas[call.name]) for call in calls)
    assert all(finish(deltas).reason is FinishReason.LENGTH for deltas in invalid)


async def test_an_answer_that_is_cut_off_says_so(nano: Engine) -> None:
    """A schema makes no answer shorter."""
    deltas = await collect(nano, ask("hello", max_tokens=3, answer_schema=SCHEMA))
    assert finish(deltas).reason is FinishReason.LENGTH
    assert finish(deltas).usage.completion_tokens == 3


async def test_a_schema_that_cannot_be_held_is_refused(nano: Engine) -> None:
    """Before anything is computed; the engine goes on."""
    with pytest.raises(InvalidRequestError, match="not"):
        await collect(nano, ask("hello", answer_schema={"not": {}}))
    assert not nano.status().active_requests
    assert said(await collect(nano, ask("hello", answer_schema={"const": 7}))) == "7"


async def test_a_resumed_answer_is_held_as_a_cold_one(nano: Engine) -> None:
    """Law 1 also where an answer is held, and at random."""
    request = ask("what is on?", seed=7, answer_schema=SCHEMA)
    other = Engine.load(NANO_PATH, CONFIG)
    cold = await collect(other, request)
    warm = await collect(other, request)
    elsewhere = await collect(nano, request)
    other.close()
    assert finish(warm).usage.reused_tokens > finish(cold).usage.reused_tokens
    assert said(cold) == said(warm) == said(elsewhere)


async def test_tools_leave_words_and_right_calls_as_they_are(nano: Engine) -> None:
    """The built-in model says and calls the same whether or not its calls are held."""
    number = {"type": "integer", "minimum": 0}
    tools = (
        *TOOLS[1:],
        ToolSpec(
            name="intent__HassTurnOn",
            description="",
            parameters={
                "type": "object",
                "properties": {
                    "area": {"type": "string"},
                    "domain": {"type": "array", "items": {"type": "string"}},
                    "name": {"type": "string"},
                },
            },
        ),
        ToolSpec(
            name="intent__HassStartTimer",
            description="",
            parameters={
                "type": "object",
                "properties": {"minutes": number},
                "anyOf": [{"required": ["minutes"]}],
            },
        ),
    )
    for question in (
        "turn on the kitchen ceiling light",
        "hello",
        "set a timer for 5 minutes",
        "what time is it",
    ):
        answers = [
            await collect(
                nano, ask(question, temperature=0.0, max_tokens=80, tools=given)
            )
            for given in ((), tools)
        ]
        free, held = (
            [
                (delta.tool_call.name, _as_text(delta.tool_call.arguments))
                if isinstance(delta, ToolCallDelta)
                else delta
                for delta in deltas[:-1]
            ]
            for deltas in answers
        )
        assert free == held
        assert free


def _as_text(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Arguments as they were written: without a tool's schema they have no types."""
    return {name: str(value) for name, value in arguments.items()}


async def test_what_cannot_be_held_is_told_in_the_status(nano: Engine) -> None:
    """Once, beside the other notices; the answer comes all the same."""
    odd = ToolSpec(name="odd", description="", parameters={"properties": 5})
    for _ in range(2):
        assert await collect(nano, ask("hello", temperature=0.0, tools=(*TOOLS, odd)))
    [notice] = nano.status().notices
    assert "odd" in notice


async def test_a_warm_up_compiles_what_the_question_will_need(
    nano: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nobody waits for it."""
    request = ask("lights", tools=(ToolSpec(name="new", description=""),))
    await nano.warm_up(request)
    monkeypatch.setattr("local_llm_engine.chat.constraints.LLMatcher", None)
    await collect(nano, request)
    assert not any("new" in notice for notice in nano.status().notices)

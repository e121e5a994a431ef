"""The engine's door, with the built-in model: answers, warm-ups, cancelling, closing."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
import gc
import logging
from pathlib import Path
import threading

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.state import SequenceState
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import (
    ContextLengthError,
    EngineClosedError,
    InvalidRequestError,
    ModelLoadError,
)
from local_llm_engine.runtime.runner import Runner
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import (
    ChatRequest,
    ContentDelta,
    Delta,
    FinishDelta,
    FinishReason,
    Message,
    Outcome,
    Purpose,
    TextPart,
    ToolCallDelta,
    Usage,
)
from tests.engine.houses import house_text

CONFIG = EngineConfig(
    dtype="float32", context_length=8_192, prompt_cache_bytes=256 << 20
)
GREEDY = SamplingParams(temperature=0.0, max_tokens=80)
# Wild enough that it talks for hundreds of tokens.
LONG_ANSWER = SamplingParams(
    temperature=5.0, top_k=0, top_p=1.0, seed=24, max_tokens=3_000
)


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[Engine]:
    engine = Engine.load(NANO_PATH, CONFIG)
    yield engine
    engine.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine that has read nothing yet."""
    engine = Engine.load(NANO_PATH, CONFIG)
    yield engine
    engine.close()


def ask(
    question: str,
    room: str = "Kitchen",
    *,
    purpose: Purpose = Purpose.VOICE,
    history: Sequence[Message] = (),
    sampling: SamplingParams = GREEDY,
) -> ChatRequest:
    """A satellite's question, laid out as the integration does."""
    system = (
        TextPart(text=house_text(), segment="house"),
        TextPart(text="Today is Sunday, 29 November 2026.\n", segment="date"),
        TextPart(
            text=f"You are in area {room} and all generic commands like 'turn on the lights' should target this area.",
            segment="device",
        ),
    )
    return ChatRequest(
        messages=(
            Message(role="system", content=system),
            *history,
            Message(role="user", content=question),
        ),
        sampling=sampling,
        purpose=purpose,
        session=room,
    )


async def collect(engine: Engine, request: ChatRequest) -> list[Delta]:
    return [delta async for delta in engine.generate(request)]


async def until_active(engine: Engine) -> None:
    """Wait until a request has taken its first step; the engine has no event for that."""
    async with asyncio.timeout(20):
        while not engine.status().active_requests:  # noqa: ASYNC110
            await asyncio.sleep(0)


def usage_of(deltas: list[Delta]) -> Usage:
    finish = deltas[-1]
    assert isinstance(finish, FinishDelta)
    return finish.usage


async def test_a_command_becomes_one_tool_call(shared_engine: Engine) -> None:
    """The model calls the tool, and the call arrives whole."""
    deltas = await collect(shared_engine, ask("Turn on the Kitchen Ceiling Light"))
    [call] = [delta.tool_call for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert call.name.endswith("HassTurnOn")
    assert "Ceiling Light" in call.arguments["name"]
    finish = deltas[-1]
    assert isinstance(finish, FinishDelta)
    assert finish.reason is FinishReason.TOOL_CALLS
    assert not any(
        isinstance(delta, ContentDelta) and "<" in delta.text for delta in deltas
    )


async def test_after_a_warm_up_only_the_question_is_read(engine: Engine) -> None:
    """Of a first question, its own words and the template's few tokens around them."""
    for room in ("Kitchen", "Bedroom"):
        await engine.warm_up(ask("", room, purpose=Purpose.WARM_UP))
    for room in ("Kitchen", "Bedroom"):
        usage = usage_of(await collect(engine, ask("Turn on the lights", room)))
        assert usage.reread_tokens <= usage.question_tokens + 12
        assert usage.prompt_tokens > 300


async def test_without_a_warm_up_a_second_satellite_reads_its_own_lines(
    engine: Engine,
) -> None:
    """The house and the date are not read again."""
    first = usage_of(await collect(engine, ask("Turn on the lights", "Kitchen")))
    second = usage_of(await collect(engine, ask("Turn off the lights", "Bedroom")))
    assert first.reread_tokens == first.prompt_tokens
    assert second.reread_tokens <= 80


async def test_a_repeated_warm_up_reads_nothing(engine: Engine) -> None:
    """It says what it found."""
    cold = await engine.warm_up(ask("", purpose=Purpose.WARM_UP))
    warm = await engine.warm_up(ask("", purpose=Purpose.WARM_UP))
    assert cold.reread_tokens == cold.prompt_tokens > 0
    assert (warm.reread_tokens, warm.completion_tokens) == (0, 0)
    assert engine.status().records[-1].outcome is Outcome.REGENERATED


async def test_a_second_turn_reads_the_second_question(engine: Engine) -> None:
    """History that is shown again as it was is not read again."""
    first = await collect(engine, ask("Hello"))
    answer = "".join(delta.text for delta in first if isinstance(delta, ContentDelta))
    history = (
        Message(role="user", content="Hello"),
        Message(role="assistant", content=answer),
    )
    usage = usage_of(await collect(engine, ask("Thank you", history=history)))
    assert usage.reread_tokens <= usage.question_tokens + 16


async def test_two_satellites_at_once_are_both_answered_right(engine: Engine) -> None:
    """As each would be alone."""
    requests = [ask("Turn on the lights", room) for room in ("Kitchen", "Bedroom")]
    together = await asyncio.gather(*(collect(engine, request) for request in requests))
    for request, deltas in zip(requests, together, strict=True):
        [call] = [
            delta.tool_call for delta in deltas if isinstance(delta, ToolCallDelta)
        ]
        [alone] = [
            delta.tool_call
            for delta in await collect(engine, request)
            if isinstance(delta, ToolCallDelta)
        ]
        assert (call.name, call.arguments) == (alone.name, alone.arguments)
        assert call.arguments["area"] == request.session


async def test_a_question_overtakes_a_warm_up(engine: Engine) -> None:
    """The voice goes first; the warm-up ends all the same."""
    ended: list[str] = []

    async def warm_up() -> None:
        await engine.warm_up(ask("", "Bedroom", purpose=Purpose.WARM_UP))
        ended.append("warm-up")

    async def question() -> None:
        await collect(
            engine, ask("Hello", sampling=SamplingParams(temperature=0.0, max_tokens=1))
        )
        ended.append("question")

    warming = asyncio.create_task(warm_up())
    await until_active(engine)
    await question()
    await warming
    assert ended == ["question", "warm-up"]


@pytest.mark.parametrize("deltas_first", [0, 1], ids=["prefill", "decode"])
async def test_closing_the_iterator_frees_the_slot(
    engine: Engine, deltas_first: int
) -> None:
    """In prefill and in decode; the next request is served at once."""
    answer = engine.generate(ask("Hello", sampling=LONG_ANSWER))
    if deltas_first:
        await anext(answer)
    else:
        starting = asyncio.ensure_future(anext(answer))
        await until_active(engine)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    await answer.aclose()
    short = SamplingParams(temperature=0.0, max_tokens=1)
    usage = usage_of(await collect(engine, ask("Hello", sampling=short)))
    assert usage.completion_tokens == 1
    status = engine.status()
    assert (status.active_requests, status.queued_requests) == (0, 0)
    assert [record.finish for record in status.records] == ["cancelled", "length"]


async def test_a_seed_repeats_an_answer(shared_engine: Engine) -> None:
    """Sampled answers are as repeatable as greedy ones."""
    answers = [
        await collect(
            shared_engine, ask("Hello", sampling=replace(LONG_ANSWER, max_tokens=40))
        )
        for _ in range(2)
    ]
    texts = [
        [delta.text for delta in answer if isinstance(delta, ContentDelta)]
        for answer in answers
    ]
    assert texts[0] == texts[1] != []


async def test_an_answer_as_long_as_allowed_ends_in_length(
    shared_engine: Engine,
) -> None:
    """One token is one token."""
    deltas = await collect(
        shared_engine,
        ask("Hello", sampling=SamplingParams(temperature=0.0, max_tokens=1)),
    )
    finish = deltas[-1]
    assert isinstance(finish, FinishDelta)
    assert finish.reason is FinishReason.LENGTH
    assert finish.usage.completion_tokens == 1


async def test_a_prompt_beyond_the_context_is_refused_before_any_work(
    shared_engine: Engine,
) -> None:
    """The error has both counts; nothing was read."""
    before = shared_engine.status().records
    request = ask("again " * 9_000)
    with pytest.raises(ContextLengthError) as caught:
        await collect(shared_engine, request)
    assert caught.value.num_prompt_tokens > caught.value.limit == 8_192
    assert shared_engine.status().records == before


async def test_a_warm_up_needs_a_question_to_stop_before(shared_engine: Engine) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidRequestError, match="last message"):
        await shared_engine.warm_up(
            ChatRequest(messages=(Message(role="system", content="Hi."),))
        )


async def test_every_request_leaves_one_line_without_its_words(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Numbers and names only."""
    caplog.set_level(logging.INFO)
    await collect(engine, ask("Turn on the secret lamp."))
    lines = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("local_llm_engine")
    ]
    assert len(lines) == 1
    assert "re-read" in lines[0]
    assert "secret" not in lines[0]


def num_alive(kind: type) -> int:
    gc.collect()
    return sum(isinstance(thing, kind) for thing in gc.get_objects())


def num_engine_threads() -> int:
    return sum(thread.name == "local_llm_engine" for thread in threading.enumerate())


async def test_closing_ends_requests_and_frees_thread_and_memory() -> None:
    """A request that runs fails with the reason; later ones are refused; closing again is harmless."""
    before = num_alive(Runner), num_alive(SequenceState), num_engine_threads()
    engine = Engine.load(NANO_PATH, CONFIG)
    answer = engine.generate(ask("Hello", sampling=LONG_ANSWER))
    await anext(answer)
    await asyncio.to_thread(engine.close)
    with pytest.raises(EngineClosedError):
        [delta async for delta in answer]
    with pytest.raises(EngineClosedError):
        await collect(engine, ask("Hello"))
    engine.close()
    assert engine.status().prompt_cache_bytes == 0
    assert (num_alive(Runner), num_alive(SequenceState)) == before[:2]
    assert num_engine_threads() == before[2]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Both doors name the folder."""
    for door in (Engine.load, Engine.check):
        with pytest.raises(ModelLoadError, match="nowhere"):
            door(tmp_path / "nowhere")


def test_check_tells_what_a_folder_holds() -> None:
    """Without reading weights."""
    summary = Engine.check(NANO_PATH)
    assert (summary.name, summary.num_layers, summary.vocab_size) == ("nano", 6, 2_560)


async def test_a_prefetch_is_no_question(engine: Engine) -> None:
    """It reads up to the question, whose record then says that all the rest was in the slot."""
    with pytest.raises(InvalidRequestError, match="gets no answer"):
        await collect(engine, ask("Hello", purpose=Purpose.PREFETCH))
    usage = await engine.warm_up(ask("", purpose=Purpose.PREFETCH))
    assert usage.reread_tokens == usage.prompt_tokens
    await collect(engine, ask("Turn on the Kitchen Floor Lamp"))
    prefetched, asked = engine.status().records
    assert (prefetched.purpose, prefetched.finish) == (Purpose.PREFETCH, "prefetched")
    assert (asked.resumed_from, asked.outcome) == ("slot", Outcome.FIRST_TURN)
    assert asked.usage.reused_tokens == usage.prompt_tokens

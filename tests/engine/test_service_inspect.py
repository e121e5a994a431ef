"""Looking into a prompt: what is known of it, without changing anything."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
import threading

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.errors import EngineClosedError
from local_llm_engine.prompts import Inspection
from local_llm_engine.runtime.runner import Runner
from local_llm_engine.service import Engine
from local_llm_engine.types import Message, Purpose
from tests.engine.test_service import CONFIG, LONG_ANSWER, ask, collect, usage_of
from tests.engine.test_service_disk import running

KITCHEN = ask("Hello", purpose=Purpose.WARM_UP)
BEDROOM = ask("Hello", "Bedroom", purpose=Purpose.WARM_UP)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with running(None) as engine:
        yield engine


async def test_nothing_is_known_of_a_prompt_that_nobody_read(engine: Engine) -> None:
    found = await engine.inspect(KITCHEN)
    assert [segment.name for segment in found.segments] == [
        "house",
        "date",
        "device",
        "question",
    ]
    assert (found.num_known_tokens, found.checkpoints, found.resumes_at) == (0, (), 0)
    assert found.reread_tokens == found.num_tokens > 300


async def test_text_is_the_prompt_up_to_the_question(engine: Engine) -> None:
    found = await engine.inspect(ask("Turn on the Küche light 🛋️"))
    text = {segment.name: segment.text for segment in found.segments}
    assert text["date"] == "Today is Sunday, 29 November 2026.\n"
    assert text["device"].startswith("You are in area Kitchen and all")
    assert text["question"] == "<|im_end|>\n<|im_start|>user\n"
    assert found.text.startswith("<|im_start|>system\n")
    assert "Küche" not in found.text


async def test_a_warm_prompt_resumes_at_its_end(engine: Engine) -> None:
    usage = await engine.warm_up(KITCHEN)
    found = await engine.inspect(KITCHEN)
    assert found.num_tokens == usage.prompt_tokens
    assert found.resumes_at == found.num_known_tokens == found.num_tokens
    assert found.reread_tokens == 0
    assert {checkpoint.tier for checkpoint in found.checkpoints} == {"ram"}
    places = [checkpoint.num_tokens for checkpoint in found.checkpoints]
    assert places == sorted(set(places))
    assert set(found.breakpoints) & set(places)


async def test_another_satellite_resumes_where_it_parts(engine: Engine) -> None:
    await engine.warm_up(KITCHEN)
    found = await engine.inspect(BEDROOM)
    shared = sum(segment.num_tokens for segment in found.segments[:2])
    assert found.resumes_at == shared <= found.num_known_tokens < found.num_tokens
    usage = await engine.warm_up(BEDROOM)
    assert usage.reread_tokens == found.reread_tokens


async def test_what_it_says_is_what_the_question_reads(engine: Engine) -> None:
    await engine.warm_up(KITCHEN)
    question = ask("Turn on the lights", "Bedroom")
    found = await engine.inspect(question)
    usage = usage_of(await collect(engine, question))
    around = usage.prompt_tokens - found.num_tokens
    assert usage.reread_tokens == found.reread_tokens + around
    again = await engine.inspect(question)
    assert {"slot"} <= {checkpoint.tier for checkpoint in again.checkpoints}


async def test_a_checkpoint_of_an_earlier_run_is_on_disk(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        await engine.warm_up(KITCHEN)
    async with running(tmp_path) as engine:
        found = await engine.inspect(KITCHEN)
        assert {checkpoint.tier for checkpoint in found.checkpoints} == {"disk"}
        assert found.reread_tokens == 0
        assert await engine.inspect(KITCHEN) == found


async def test_it_changes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.warm_up(KITCHEN)
    await engine.warm_up(BEDROOM)
    runners: list[Runner] = []
    known = Runner.known

    def watch(runner: Runner, token_ids: tuple[int, ...]) -> object:
        runners.append(runner)
        return known(runner, token_ids)

    monkeypatch.setattr(Runner, "known", watch)
    first = await engine.inspect(KITCHEN)
    (runner,) = runners
    cache = runner._cache
    before = (engine.status(), _recency(runner))
    assert await engine.inspect(KITCHEN) == first
    await engine.inspect(ask("", "Attic"))
    assert (engine.status(), _recency(runner)) == before
    cache.check_integrity()


def _recency(runner: Runner) -> list[tuple[int, int, int]]:
    tree = runner._cache._store.tree
    return sorted(
        (piece.last_used, piece.end, piece.num_holders) for piece in tree.pieces()
    )


async def test_it_answers_while_a_request_runs(engine: Engine) -> None:
    answers = engine.generate(ask("Hello", sampling=LONG_ANSWER))
    await anext(answers)
    found = await engine.inspect(BEDROOM)
    assert engine.status().active_requests == 1
    assert 0 < found.resumes_at < found.num_tokens
    await answers.aclose()


async def test_a_closed_engine_says_so() -> None:
    engine = Engine.load(NANO_PATH, CONFIG)
    engine.close()
    with pytest.raises(EngineClosedError):
        await engine.inspect(KITCHEN)


async def test_a_prompt_without_a_question_is_looked_at_whole(engine: Engine) -> None:
    request = ask("Hello")
    found = await engine.inspect(
        type(request)(
            messages=(*request.messages, Message(role="assistant", content="Hi."))
        )
    )
    assert isinstance(found, Inspection)
    assert "Hello" not in found.text


async def test_who_stops_waiting_harms_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, cancelled = Runner.known, threading.Event()

    def known_later(runner: Runner, token_ids: tuple[int, ...]) -> object:
        assert cancelled.wait(10)
        return known(runner, token_ids)

    # Else all may be answered before there is time to stop waiting.
    monkeypatch.setattr(Runner, "known", known_later)
    waiting = [asyncio.create_task(engine.inspect(KITCHEN)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    cancelled.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[0] == results[2] == await engine.inspect(KITCHEN)
    assert isinstance(results[1], asyncio.CancelledError)

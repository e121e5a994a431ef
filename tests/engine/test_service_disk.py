"""The engine's door with a disk tier: restarts, a second engine, and folders that cannot be used."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
import time
from typing import Any

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.service import Engine
from local_llm_engine.types import Delta, Outcome, Purpose, ToolCallDelta
from tests.engine.test_service import CONFIG, ask, collect, usage_of

WARM_UP = ask("", purpose=Purpose.WARM_UP)
QUESTION = ask("Turn on the lights")


@asynccontextmanager
async def running(folder: Path | None, **changes: Any) -> AsyncIterator[Engine]:
    """Run an engine from its start to its close."""
    engine = Engine.load(NANO_PATH, replace(CONFIG, cache_folder=folder, **changes))
    try:
        yield engine
    finally:
        engine.close()


def calls(deltas: list[Delta]) -> list[tuple[str, Any]]:
    """What an answer calls, and with what."""
    return [
        (delta.tool_call.name, delta.tool_call.arguments)
        for delta in deltas
        if isinstance(delta, ToolCallDelta)
    ]


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def alter_all(folder: Path) -> None:
    """Flip a bit of every file's last byte."""
    for path in folder.iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)


async def warm(folder: Path) -> None:
    """Leave a warmed-up satellite on disk."""
    async with running(folder) as engine:
        await engine.warm_up(WARM_UP)


async def test_after_a_restart_the_first_question_reads_only_itself(
    tmp_path: Path,
) -> None:
    """And is answered as it would have been without one."""
    async with running(None) as engine:
        cold = await collect(engine, QUESTION)
    await warm(tmp_path)
    async with running(tmp_path) as engine:
        status = engine.status()
        assert (status.prompt_cache_bytes, status.notices) == (0, ())
        warm_answer = await collect(engine, QUESTION)
        [record] = engine.status().records
    usage = usage_of(warm_answer)
    assert usage.prompt_tokens > 300
    assert usage.reread_tokens <= usage.question_tokens + 12
    assert (record.resumed_from, record.outcome) == ("disk", Outcome.AFTER_RESTART)
    assert calls(warm_answer) == calls(cold) != []


async def test_status_tells_what_is_on_disk(tmp_path: Path) -> None:
    """As soon as it is there, and the limit."""
    async with running(tmp_path, disk_cache_bytes=1 << 28) as engine:
        assert engine.status().disk_cache_bytes == 0
        await engine.warm_up(WARM_UP)
        deadline = time.monotonic() + 10
        while engine.status().disk_cache_bytes < engine.status().prompt_cache_bytes:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # noqa: ASYNC251 - nothing else runs
        assert engine.status().disk_cache_limit_bytes == 1 << 28
        assert engine.status().disk_cache_bytes == bytes_in(tmp_path)


async def test_a_second_engine_on_the_folder_goes_on_without_it(tmp_path: Path) -> None:
    """And says so; the first is not disturbed."""
    async with running(tmp_path) as first, running(tmp_path) as second:
        [notice] = second.status().notices
        assert "another engine" in notice
        assert second.status().disk_cache_limit_bytes == 0
        for engine in (first, second):
            await collect(engine, QUESTION)
        assert first.status().notices == ()


@pytest.mark.parametrize(
    "changes",
    [{"prefill_chunk_tokens": 128}, {"half_checkpoints": True}, {"num_threads": 2}],
    ids=str,
)
async def test_other_settings_do_not_go_on_from_these_numbers(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """What would round otherwise is read again."""
    await warm(tmp_path)
    async with running(tmp_path, **changes) as engine:
        usage = usage_of(await collect(engine, QUESTION))
        assert usage.reused_tokens == 0
        assert engine.status().notices == ()


async def test_a_damaged_folder_costs_tokens_and_never_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every file altered; the engine answers, and tells."""
    await warm(tmp_path)
    alter_all(tmp_path)
    async with running(None) as engine:
        cold = await collect(engine, QUESTION)
    async with running(tmp_path) as engine:
        answer = await collect(engine, QUESTION)
        assert len(engine.status().notices) == 1
    assert usage_of(answer).reused_tokens == 0
    assert calls(answer) == calls(cold) != []
    [warning] = [
        record.getMessage()
        for record in caplog.records
        if record.levelname == "WARNING" and record.name.startswith("local_llm_engine")
    ]
    assert "pieces computed from it" in warning


async def test_half_checkpoints_take_less(tmp_path: Path) -> None:
    """In RAM and on disk."""
    sizes = []
    for half in (False, True):
        folder = tmp_path / str(half)
        async with running(folder, half_checkpoints=half) as engine:
            await engine.warm_up(WARM_UP)
            in_ram = engine.status().prompt_cache_bytes
        sizes.append((in_ram, bytes_in(folder)))
    assert sizes[1] < sizes[0]
    assert sizes[1][1] < sizes[0][1]

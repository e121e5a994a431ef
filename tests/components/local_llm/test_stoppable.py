"""Work that nobody waits for any more: it ends first, and nothing that it made is left without an owner."""

import asyncio
import threading

import pytest

from custom_components.local_llm.stoppable import async_run_stoppable
from homeassistant.core import HomeAssistant


class Work:
    """Makes a result once it may end, whether it was stopped or not; `let_go` is what was given to `discard`."""

    def __init__(self, hass: HomeAssistant, error: Exception | None = None) -> None:
        self.stopped = threading.Event()
        self.may_end = threading.Event()
        self.has_ended = threading.Event()
        self.is_let_go = threading.Event()
        self.let_go: list[str] = []
        run = async_run_stoppable(hass, self.stopped, self._run, self._discard)
        self.task = hass.async_create_task(run)
        self._hass = hass
        self._error = error

    def _run(self) -> str:
        assert self.may_end.wait(30)
        self.has_ended.set()
        if self._error:
            raise self._error
        return "result"

    def _discard(self, result: str) -> None:
        self.let_go.append(result)
        self.is_let_go.set()

    async def cancel(self) -> None:
        """Cancel it, and wait until that has reached the work."""
        self.task.cancel()
        await self.until(self.stopped)

    async def until(self, event: threading.Event) -> None:
        assert await self._hass.async_add_executor_job(event.wait, 30)


async def test_a_result_that_somebody_waits_for_is_kept(hass: HomeAssistant) -> None:
    work = Work(hass)
    work.may_end.set()
    assert await work.task == "result"
    assert not work.stopped.is_set()
    assert work.let_go == []


async def test_a_result_that_comes_in_spite_of_being_stopped_is_let_go(
    hass: HomeAssistant,
) -> None:
    work = Work(hass)
    await work.cancel()
    assert not work.task.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await work.task
    assert work.let_go == ["result"]


async def test_a_result_that_was_there_already_is_let_go(hass: HomeAssistant) -> None:
    """It was cancelled between the work's end and its own."""
    work = Work(hass)
    work.may_end.set()
    work.has_ended.wait()
    work.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work.task
    assert work.let_go == ["result"]


async def test_a_result_is_let_go_though_nobody_waits_for_the_end(
    hass: HomeAssistant,
) -> None:
    work = Work(hass)
    await work.cancel()
    work.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work.task
    assert work.let_go == []
    work.may_end.set()
    await work.until(work.is_let_go)
    assert work.let_go == ["result"]


async def test_an_error_that_nobody_waits_for_is_lost(
    hass: HomeAssistant, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(hass, ValueError("no"))
    await work.cancel()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await work.task
    assert work.let_go == []
    assert "never retrieved" not in caplog.text

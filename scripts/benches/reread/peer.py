"""The peer: llama-server on this machine, asked the same questions with the prompts that it would get.

Knows how to start and ask it; knows nothing of the house.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
import time
from typing import Any

import aiohttp
from demo_house.core import DemoError, free_port

from ..peers import peer_environment
from .openai import PeerRequest

DEFAULT_THREADS = 2
_CONTEXT_TOKENS = 16_384
_START_SECONDS = 300
_POLL_SECONDS = 0.2
_STOP_SECONDS = 10
_LOG_LINES_SHOWN = 15


class PeerError(DemoError):
    """The peer does not do what it is asked, in words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one request cost the peer; `seconds` from the request to its one token."""

    prompt_tokens: int
    reread_tokens: int
    seconds: float


class Peer:
    """One llama-server after another, on a free port of this machine."""

    def __init__(self, binary: Path, model: Path, *, threads: int, log: Path) -> None:
        """Start nothing yet; what it prints goes to the file `log`."""
        self._binary = binary
        self._model = model
        self._threads = threads
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._session: aiohttp.ClientSession | None = None
        self._url = ""

    async def start(self) -> None:
        """Start it and wait until its model is loaded; one that runs is stopped first.

        Raises:
            PeerError: it cannot be run, ended, or was not ready in time.
        """
        await self.stop()
        port = await asyncio.to_thread(free_port, 0)
        self._url = f"http://127.0.0.1:{port}"
        command = (
            *(self._binary, "-m", self._model, "--host", "127.0.0.1"),
            *("--port", port, "-c", _CONTEXT_TOKENS, "-np", 1, "-t", self._threads),
            "--jinja",
        )
        try:
            with await asyncio.to_thread(self._log.open, "wb") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *map(str, command),
                    env=peer_environment(),
                    stdout=log,
                    stderr=log,
                )
        except OSError as err:
            raise PeerError(f"{self._binary} cannot be run: {err.strerror}") from err
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        deadline = time.monotonic() + _START_SECONDS
        while not await self._is_ready():
            if self._process.returncode is not None:
                raise PeerError(
                    f"{self._binary} ended with {self._process.returncode} before it was ready:"
                    f"\n{await asyncio.to_thread(self._last_words)}"
                )
            if time.monotonic() > deadline:
                raise PeerError(
                    f"{self._binary} was not ready after {_START_SECONDS} seconds"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """End it, where it runs."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self._process = None

    async def read(self, request: PeerRequest) -> Reading:
        """Have it read a prompt and answer with one token.

        Raises:
            PeerError: it refuses, or does not tell what it reused.
        """
        assert self._session is not None
        start = time.perf_counter()
        async with self._session.post(
            f"{self._url}/v1/chat/completions", json=request.body()
        ) as response:
            words = await response.text()
            if response.status != 200:
                raise PeerError(f"{self._binary} answered {response.status}: {words}")
            seconds = time.perf_counter() - start
            return _reading(await response.json(), seconds)

    async def _is_ready(self) -> bool:
        assert self._session is not None
        try:
            async with self._session.get(f"{self._url}/health") as response:
                return response.status == 200
        except aiohttp.ClientConnectionError:
            return False

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_LOG_LINES_SHOWN:])


def _reading(answer: dict[str, Any], seconds: float) -> Reading:
    timings = answer.get("timings") or {}
    try:
        reread, reused = int(timings["prompt_n"]), int(timings["cache_n"])
    except KeyError as err:
        raise PeerError(
            f"the peer's answer has no timings.{err.args[0]}; llama-server tells it since autumn 2025"
        ) from err
    return Reading(prompt_tokens=reread + reused, reread_tokens=reread, seconds=seconds)

"""The engine that answers in the house in place of the integration's own: it can be restarted, and notes every call.

Knows nothing of Home Assistant.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
import time

from local_llm_engine.config import EngineConfig
from local_llm_engine.service import Engine, EngineStatus
from local_llm_engine.types import (
    CallRecord,
    ChatRequest,
    ContentDelta,
    Delta,
    FinishDelta,
    FinishReason,
    ToolCallDelta,
    Usage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One answer of the engine; `seconds` from the request to the first token, rendering and tokenizing included."""

    request: ChatRequest
    usage: Usage
    record: CallRecord
    seconds: float


class RestartableEngine:
    """One engine after another, with what all of them were asked in `calls`.

    While `script` holds answers, a prompt is read as ever and the next of these is given: what a model
    says is then known beforehand, be its weights random.
    """

    def __init__(self, folder: Path, config: EngineConfig) -> None:
        """Load nothing yet."""
        self._folder = folder
        self._config = config
        self._engine: Engine | None = None
        self.calls: list[Call] = []
        self.script: list[Sequence[Delta]] = []

    async def start(self) -> None:
        """Load the engine, with what it has on disk."""
        await self._load(self._config)

    async def start_anew(self, prompt_cache_bytes: int | None = None) -> None:
        """Load the engine with nothing that was ever read, and with so much memory; None leaves it as it was."""
        limit = prompt_cache_bytes or self._config.prompt_cache_bytes
        await self._load(
            replace(self._config, cache_folder=None, prompt_cache_bytes=limit)
        )

    async def stop(self) -> None:
        """Close the engine, as a restart of Home Assistant does."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None

    def status(self) -> EngineStatus:
        """Tell what the engine is and does now."""
        return self._running.status()

    def add_record_listener(
        self, listener: Callable[[CallRecord], object]
    ) -> Callable[[], None]:
        """Have `listener` called with the records of the engine that runs now; the bench itself reads `calls`."""
        return self._running.add_record_listener(listener)

    async def warm_up(self, request: ChatRequest) -> Usage:
        """Read a prompt up to its question."""
        return await self._running.warm_up(request)

    async def read(self, request: ChatRequest) -> Call:
        """Read a prompt to its end, and answer with one token."""
        async for _ in self._noted(_short(request)):
            pass
        return self.calls[-1]

    async def generate(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Answer, with the model's words or with those of the script."""
        if not self.script:
            async for delta in self._noted(request):
                yield delta
            return
        answer = self.script.pop(0)
        call = await self.read(request)
        for delta in answer:
            yield delta
        calls_tools = any(isinstance(delta, ToolCallDelta) for delta in answer)
        yield FinishDelta(
            FinishReason.TOOL_CALLS if calls_tools else FinishReason.STOP, call.usage
        )

    @property
    def _running(self) -> Engine:
        assert self._engine is not None
        return self._engine

    async def _load(self, config: EngineConfig) -> None:
        await self.stop()
        self._engine = await asyncio.to_thread(Engine.load, self._folder, config)

    async def _noted(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        start = time.perf_counter()
        seconds: float | None = None
        async with aclosing(self._running.generate(request)) as deltas:
            async for delta in deltas:
                passed = time.perf_counter() - start
                if seconds is None and isinstance(delta, ContentDelta):
                    seconds = passed
                if isinstance(delta, FinishDelta):
                    # What is no content is given out long after its first token.
                    until_first_token = passed - delta.usage.decode_seconds
                    self.calls.append(
                        Call(
                            request=request,
                            usage=delta.usage,
                            record=self.status().records[-1],
                            seconds=until_first_token if seconds is None else seconds,
                        )
                    )
                yield delta


def _short(request: ChatRequest) -> ChatRequest:
    return replace(request, sampling=replace(request.sampling, max_tokens=1))

"""What an entry's agents, warm-up and sensors ask of its engine, be it loaded or still being made ready."""

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Protocol

from local_llm_engine.prompts import Inspection
from local_llm_engine.types import CallRecord, ChatRequest, Delta, Usage

if TYPE_CHECKING:
    from local_llm_engine.service import EngineStatus


class EntryEngine(Protocol):
    """The engine of a loaded entry; each method is that of `local_llm_engine.service.Engine`."""

    def generate(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Answer a request."""

    async def warm_up(self, request: ChatRequest) -> Usage:
        """Read a prompt before anybody asks."""

    async def inspect(self, request: ChatRequest) -> Inspection:
        """Tell what is known of a request's prompt."""

    def status(self) -> EngineStatus:
        """Tell what the engine is and does now."""

    def add_record_listener(
        self, listener: Callable[[CallRecord], object]
    ) -> Callable[[], None]:
        """Have `listener` called with every call record; return how to end that."""

    def close(self) -> None:
        """End all requests and free the memory; may be called again."""

"""Carries a sequence's events from the engine's thread to the event loop that waits for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from .sequence import FailEvent, FinishEvent, SequenceEvent, TokenEvent


async def until_ended(
    queue: asyncio.Queue[SequenceEvent],
) -> AsyncIterator[TokenEvent | FinishEvent]:
    """Yield the events up to and with the finish; a failure is raised."""
    while True:
        event = await queue.get()
        if isinstance(event, FailEvent):
            raise event.error
        yield event
        if isinstance(event, FinishEvent):
            return


def deliver(
    loop: asyncio.AbstractEventLoop,
    queue: asyncio.Queue[SequenceEvent],
    event: SequenceEvent,
) -> None:
    """Hand an event to the request's event loop; one that has closed has nobody left to tell."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(queue.put_nowait, event)

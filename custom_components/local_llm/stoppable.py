"""Work on a thread that is told when nobody waits for it any more, and waited for all the same until it has ended."""

import asyncio
from collections.abc import Callable
import threading

from homeassistant.core import HomeAssistant


async def async_run_stoppable[Result](
    hass: HomeAssistant,
    stopped: threading.Event,
    work: Callable[[], Result],
    discard: Callable[[Result], object] | None = None,
) -> Result:
    """Do work that looks at `stopped` again and again; where this is cancelled, `stopped` is set, and the work ends first.

    What the work returns all the same is given to `discard`, on a thread, too, where it needs somebody to let it go;
    what it raises then is lost.
    """
    # No job of Home Assistant's: it cancels those while their threads go on.
    future = hass.loop.run_in_executor(None, work)
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        stopped.set()
        # Whoever cancels this once more waits no longer, but what comes still has an owner.
        await asyncio.shield(_async_discard(hass, future, discard))
        raise
    return future.result()


async def _async_discard[Result](
    hass: HomeAssistant,
    future: asyncio.Future[Result],
    discard: Callable[[Result], object] | None,
) -> None:
    await asyncio.wait([future])
    # Whatever was raised, it is not missed.
    if future.exception() is None and discard is not None:
        await hass.loop.run_in_executor(None, discard, future.result())

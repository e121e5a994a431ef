"""Work on a thread that is told when nobody waits for it any more, and waited for all the same until it has ended."""

import asyncio
from collections.abc import Callable
import threading

from homeassistant.core import HomeAssistant


async def async_run_stoppable[Result](
    hass: HomeAssistant, stopped: threading.Event, work: Callable[[], Result]
) -> Result:
    """Do work that looks at `stopped` again and again; where this is cancelled, `stopped` is set, and the work ends first.

    What the work returns or raises then is lost.
    """
    # No job of Home Assistant's: it cancels those while their threads go on.
    future = hass.loop.run_in_executor(None, work)
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.wait([future])
        # Whatever it is, it is not missed.
        future.exception()
        raise
    return future.result()

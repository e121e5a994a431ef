"""Work on a thread of its own that gives way to every other: a house goes on while something long is done.

Knows nothing of what is done.
"""

from collections.abc import Callable
from concurrent.futures import Future
import os
import sys
import threading

# How much less it asks for the processor than whoever waits for it; the least that there is.
_NICER = 10
_NICEST = 19


def run_in_background(work: Callable[[], None], name: str) -> None:
    """Do it on a thread called `name`, wait for its end, and raise what it raises."""
    done: Future[None] = Future()

    def run() -> None:
        _give_way()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
            done.set_exception(error)
        else:
            done.set_result(None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        done.result()
    finally:
        thread.join()


def _give_way() -> None:
    """Let all other threads go first; those that torch begins for this one do the same.

    Only Linux has priorities for threads.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + _NICER
        os.setpriority(os.PRIO_PROCESS, thread, min(_NICEST, niceness))

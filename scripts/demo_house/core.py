"""A real Home Assistant in this process, and the end of it.

Knows nothing of what is in the house or what it is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
import logging
from pathlib import Path
import shutil
import signal
import socket
import tempfile
from threading import Thread
import traceback
from typing import Any

from homeassistant import bootstrap
from homeassistant.auth.const import GROUP_ID_ADMIN
from homeassistant.auth.providers.homeassistant import HassAuthProvider
from homeassistant.core import HomeAssistant
from homeassistant.runner import RuntimeConfig, create_event_loop

from .folder import LOG_NAME, fill

USUAL_PORT = 8123
USER = PASSWORD = "demo"
INTERRUPTED = 130
_LOG_LINES_SHOWN = 40
_LAST_TASKS_SECONDS = 5


class DemoError(Exception):
    """Something that the demo needs is not as it should be, in words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A running Home Assistant."""

    hass: HomeAssistant
    port: int

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://localhost:{self.port}"


def run_in_home(
    work: Callable[[Home], Awaitable[int]], *, port: int | None, verbose: bool
) -> int:
    """Start Home Assistant, do some work in its event loop, and leave no trace of it.

    Without a `port` the usual one is taken, or another where that is in use. With `verbose` Home
    Assistant's log goes to the terminal; else its end is shown where something fails.

    Returns:
        What `work` returns, 1 where something failed, 130 where it was interrupted.

    """
    folder = Path(tempfile.mkdtemp(prefix="local-llm-demo-"))
    code = 1
    try:
        port = free_port(port)
        fill(folder, port, verbose=verbose)
        code = _run(_live(work, folder, port, verbose=verbose))
    except DemoError as error:
        print(f"\nThe demo failed: {error}.")
    except Exception:  # noqa: BLE001 - Home Assistant's own hook would only write it to the log
        traceback.print_exc()
    finally:
        _aside(_leave, folder, show=code not in {0, INTERRUPTED} and not verbose)
    return code


async def _live(
    work: Callable[[Home], Awaitable[int]], folder: Path, port: int, *, verbose: bool
) -> int:
    if not verbose:
        # Keeps Home Assistant from adding a handler that writes to the terminal.
        logging.getLogger().addHandler(logging.NullHandler())
    hass = await bootstrap.async_setup_hass(
        RuntimeConfig(
            config_dir=str(folder),
            skip_pip=True,
            verbose=verbose,
            log_file=str(folder / LOG_NAME),
            log_no_color=True,
        )
    )
    if hass is None:
        raise DemoError("Home Assistant did not start")
    try:
        if hass.config.recovery_mode:
            raise DemoError("Home Assistant started in recovery mode")
        if hass.config.api is None or hass.config.api.port != port:
            raise DemoError(f"Home Assistant could not listen on port {port}")
        await _add_user(hass)
        await hass.async_start()
        return await work(Home(hass=hass, port=port))
    finally:
        await hass.async_stop(force=True)


def _run(main: Coroutine[None, None, int]) -> int:
    """Run to the end, or to the first Ctrl+C; a second one kills."""
    loop = create_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(main)
    interrupted = False

    def interrupt(number: signal.Signals) -> None:
        nonlocal interrupted
        interrupted = True
        loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt, number)
    try:
        return loop.run_until_complete(task)
    except Exception, asyncio.CancelledError:
        # What breaks because it was interrupted is no fault.
        if not interrupted:
            raise
        return INTERRUPTED
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Let what still runs in the loop end, for a while."""
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.wait(rest, timeout=_LAST_TASKS_SECONDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    asyncio.set_event_loop(None)
    loop.close()


def free_port(wanted: int | None) -> int:
    """Find a port of this machine that nobody listens on.

    Raises:
        DemoError: the wanted port is taken.

    """
    for port in (USUAL_PORT, 0) if wanted is None else (wanted,):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    raise DemoError(f"port {wanted} is taken; leave --port out or name another one")


async def _add_user(hass: HomeAssistant) -> None:
    """Let the demo's user in, as the owner."""
    provider = hass.auth.get_auth_provider("homeassistant", None)
    if not isinstance(provider, HassAuthProvider):
        raise DemoError("Home Assistant knows no users with passwords")
    await provider.async_initialize()
    await provider.async_add_auth(USER, PASSWORD)
    credentials = await provider.async_get_or_create_credentials({"username": USER})
    user = await hass.auth.async_create_user("Demo", group_ids=[GROUP_ID_ADMIN])
    await hass.auth.async_link_user(user, credentials)


def _leave(folder: Path, *, show: bool) -> None:
    """Remove the folder, and print the end of Home Assistant's log where something failed."""
    log = folder / LOG_NAME
    lines: list[str] = []
    if show and log.exists():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    # First of all, for nobody may be there any more to print to.
    shutil.rmtree(folder, ignore_errors=True)
    if lines:
        print("\nThe end of Home Assistant's log (all of it with --verbose):")
        print("\n".join(f"  {line}" for line in lines[-_LOG_LINES_SHOWN:]))


def _aside(work: Callable[..., None], *arguments: Any, **named: Any) -> None:
    """Work with files in a thread: Home Assistant goes on to complain of that in what was its loop's."""
    thread = Thread(target=work, args=arguments, kwargs=named)
    thread.start()
    thread.join()

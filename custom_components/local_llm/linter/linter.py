"""Finds what changes faster than daily in an agent's instructions, line by line, without holding up Home Assistant."""

from contextlib import suppress

from homeassistant.core import HomeAssistant
from homeassistant.util.thread import ThreadWithException

from ..const import DOMAIN
from .findings import Lint
from .run import LintRun

# Home Assistant itself renders instructions on its event loop: what takes this long would stop the house.
TIMEOUT_SECONDS = 4.0


class SlowTemplateError(Exception):
    """The instructions take too long to render."""


class _TimeIsOverError(BaseException):
    """Stops the linter wherever it is; nothing in a template may catch it."""


async def async_lint(hass: HomeAssistant, source: str) -> Lint:
    """Look through instructions, off the event loop.

    Raises:
        TemplateError: they are no valid template, or cannot be rendered.
        SlowTemplateError: they take too long.
    """
    linter = LintRun(hass, source)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            linter.run()
        except _TimeIsOverError:
            # What was found until here stands.
            pass
        except BaseException as err:  # noqa: BLE001 - it belongs to the one who waits
            failures.append(err)

    thread = ThreadWithException(target=work, name=f"{DOMAIN} linter", daemon=True)
    thread.start()
    try:
        await hass.async_add_executor_job(thread.join, TIMEOUT_SECONDS)
    finally:
        # It has ended where it cannot be found any more.
        with suppress(ValueError):
            thread.raise_exc(_TimeIsOverError)
    await hass.async_add_executor_job(thread.join)
    linter.states.forget()
    if failures:
        raise failures[0]
    if not linter.has_rendered:
        raise SlowTemplateError
    linter.lint.findings.sort(key=lambda finding: finding.line)
    return linter.lint

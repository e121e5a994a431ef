"""Waits until a series of changes is over."""

from collections.abc import Callable
from datetime import datetime

from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback
from homeassistant.helpers.event import async_call_later


class Settling:
    """Calls once things have been quiet for a while, or have not been for too long."""

    def __init__(
        self,
        hass: HomeAssistant,
        on_settled: Callable[[], None],
        quiet_seconds: float,
        limit_seconds: float,
    ) -> None:
        """Call `quiet_seconds` after the last change, and `limit_seconds` after the first at the latest."""
        self._hass = hass
        self._on_settled = on_settled
        self._quiet_seconds = quiet_seconds
        self._limit_seconds = limit_seconds
        self._deadline: float | None = None
        self._cancel: CALLBACK_TYPE | None = None

    @callback
    def async_note(self) -> None:
        """Something has changed."""
        now = self._hass.loop.time()
        if self._deadline is None:
            self._deadline = now + self._limit_seconds
        if self._cancel:
            self._cancel()
        seconds = max(0.0, min(self._quiet_seconds, self._deadline - now))
        self._cancel = async_call_later(self._hass, seconds, self._settled)

    @callback
    def async_stop(self) -> None:
        """Forget what has changed."""
        self._deadline = None
        if self._cancel:
            self._cancel()
            self._cancel = None

    @callback
    def _settled(self, _: datetime) -> None:
        self._deadline = self._cancel = None
        self._on_settled()

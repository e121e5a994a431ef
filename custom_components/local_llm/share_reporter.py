"""Brings the share of a thread's work that is done to the event loop, in steps that somebody can see."""

from collections.abc import Callable

from homeassistant.core import HomeAssistant

type OnShare = Callable[[float], None]


class ShareReporter:
    """Tells `on_share` on the event loop of every change of at least `step`, and of the end."""

    def __init__(self, hass: HomeAssistant, on_share: OnShare, *, step: float) -> None:
        """Begin at nothing."""
        self._hass = hass
        self._on_share = on_share
        self._step = step
        self._told = 0.0

    def __call__(self, share: float) -> None:
        """Take a share, from 0 to 1, of the thread that works."""
        if abs(share - self._told) >= self._step or share == 1:
            self._told = share
            self._hass.loop.call_soon_threadsafe(self._on_share, share)

"""Converts the weights of an entry, off the event loop, with progress and an early end where nobody waits any more."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
import threading
from typing import Any, Final

from homeassistant.const import CONF_MODEL
from homeassistant.core import HomeAssistant
from homeassistant.util.hass_dict import HassKey

from ..engine_settings import engine_config
from ..failures import EngineUnavailableError, load_failure
from ..machine.model_check import engine_class, model_folder
from ..share_reporter import OnShare, ShareReporter
from ..stoppable import async_run_stoppable
from .kept import weights_folder

# One conversion at a time writes into a folder; who comes second finds what the first has made.
_LOCKS: HassKey[dict[Path, asyncio.Lock]] = HassKey("local_llm_conversions")
_STEP: Final = 0.01


class WeightsConversion:
    """Makes the weights that an entry with such data is to be loaded with; `on_share` is told which share is done."""

    def __init__(
        self, hass: HomeAssistant, data: Mapping[str, Any], on_share: OnShare
    ) -> None:
        """Do nothing yet."""
        self._hass = hass
        self._data = data
        self._folder = weights_folder(hass, data)
        self._reporter = ShareReporter(hass, on_share, step=_STEP)
        self._stopped = threading.Event()
        # Held while the thread works
        self._working = threading.Lock()

    async def async_run(self) -> None:
        """Take minutes; where the weights are made already, or there are none to make, seconds or none.

        Cancel it at any moment: then it ends within seconds and leaves nothing behind.

        Raises:
            EngineUnavailableError: they cannot be made or kept, or it was stopped.
        """
        locks = self._hass.data.setdefault(_LOCKS, {})
        async with locks.setdefault(self._folder, asyncio.Lock()):
            await async_run_stoppable(self._hass, self._stopped, self._convert)

    def stop(self) -> None:
        """Have it end, and wait for that; blocks for seconds."""
        self._stopped.set()
        with self._working:
            pass

    def _convert(self) -> None:
        with self._working:
            try:
                engine_class().convert(
                    model_folder(self._data[CONF_MODEL]),
                    engine_config(self._data, weights_folder=self._folder),
                    self._reporter,
                    is_cancelled=self._stopped.is_set,
                )
            except Exception as err:
                raise EngineUnavailableError(load_failure(err)) from err

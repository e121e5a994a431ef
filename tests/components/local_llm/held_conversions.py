"""Conversions of weights that wait in the middle, so that a test can look at what is there meanwhile."""

from collections.abc import Iterator
from pathlib import Path
import threading
from typing import Any
from unittest.mock import patch

import pytest

from custom_components.local_llm.weights.kept import weights_folder
from homeassistant.core import HomeAssistant
from local_llm_engine.weights.conversion import Conversion

_NUM_BEFORE = 5


class HeldConversion:
    """Lets a conversion make some matrices; it makes the others once it may go on, and ends at once if it is given up."""

    def __init__(self) -> None:
        self.converted: list[str] = []
        self._is_held = threading.Event()
        self._may_go_on = threading.Event()
        self._convert = Conversion.convert

    def convert(self, conversion: Conversion, name: str) -> Any:
        self.converted.append(name)
        if len(self.converted) > _NUM_BEFORE:
            self._is_held.set()
            while not self._may_go_on.wait(0.01):
                conversion.check()
        return self._convert(conversion, name)

    async def until_held(self, hass: HomeAssistant) -> None:
        """Wait until it waits."""
        assert await hass.async_add_executor_job(self._is_held.wait, 60)

    def go_on(self) -> None:
        self._may_go_on.set()


@pytest.fixture
def held() -> Iterator[HeldConversion]:
    """Hold the next conversion in the middle."""
    conversion = HeldConversion()

    def convert(self: Conversion, name: str) -> Any:
        return conversion.convert(self, name)

    with patch.object(Conversion, "convert", convert):
        yield conversion
        conversion.go_on()


def kept(hass: HomeAssistant) -> list[Path]:
    """All files of converted weights, whole or not, and the folders that were made for them."""
    folder = Path(hass.config.cache_path("local_llm", "weights"))
    return sorted(
        (*folder.glob("*/*"), *folder.glob("*"), *folder.parent.glob("weights"))
    )


def kept_of(hass: HomeAssistant, data: dict[str, Any]) -> list[Path]:
    """The files that an entry with such data is loaded from."""
    return sorted(weights_folder(hass, data).glob("*"))

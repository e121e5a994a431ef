"""One call for a series of changes."""

from freezegun.api import FrozenDateTimeFactory
import pytest

from custom_components.local_llm.warming.settling import Settling
from homeassistant.core import HomeAssistant

from ..conftest import settle


class Bell:
    """Counts how often it was rung."""

    def __init__(self, hass: HomeAssistant) -> None:
        self.num_rings = 0
        self.settling = Settling(hass, self.ring, quiet_seconds=5.0, limit_seconds=60.0)

    def ring(self) -> None:
        self.num_rings += 1


@pytest.fixture
def bell(hass: HomeAssistant) -> Bell:
    return Bell(hass)


async def test_rings_once_when_it_has_been_quiet(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, bell: Bell
) -> None:
    for _ in range(3):
        bell.settling.async_note()
        await settle(hass, freezer, 4)
    assert bell.num_rings == 0
    await settle(hass, freezer, 2)
    assert bell.num_rings == 1
    await settle(hass, freezer, 600)
    assert bell.num_rings == 1


async def test_steady_changes_cannot_put_it_off_for_ever(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, bell: Bell
) -> None:
    for _ in range(62):
        bell.settling.async_note()
        await settle(hass, freezer, 1)
    assert bell.num_rings == 1
    bell.settling.async_stop()


async def test_a_second_series_rings_again(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, bell: Bell
) -> None:
    for _ in range(2):
        bell.settling.async_note()
        await settle(hass, freezer, 100)
    assert bell.num_rings == 2


async def test_says_nothing_once_stopped(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, bell: Bell
) -> None:
    bell.settling.async_stop()
    bell.settling.async_note()
    bell.settling.async_stop()
    await settle(hass, freezer, 100)
    assert bell.num_rings == 0

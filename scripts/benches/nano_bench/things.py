"""What all things of a generated house have in common, and those that are switched: they do as they are told and note it.

Knows the houses of `nano`, nothing of engines and questions.
"""

from collections.abc import Callable
from typing import Any, override

from nano.house import Thing

from homeassistant.components.fan import FanEntity, FanEntityFeature
from homeassistant.components.humidifier import HumidifierEntity
from homeassistant.components.light import ColorMode, LightEntity
from homeassistant.components.switch import SwitchEntity
from homeassistant.helpers.entity import Entity

type Note = Callable[[str, str, Any], None]


class HouseThing(Entity):
    """Anything of a generated house; `note` hears of everything that it is told to do."""

    _attr_should_poll = False

    def __init__(self, thing: Thing, key: str, note: Note) -> None:
        """Start as the house says."""
        self.entity_id = f"{thing.domain}.{key}"
        self._attr_unique_id = key
        self._attr_name = thing.name
        self._thing = thing
        self._note = note
        self.put_back()

    def put_back(self) -> None:
        """Be again as at first."""

    def _did(self, what: str, value: Any = None) -> None:
        self._note(self.entity_id, what, value)
        self.async_write_ha_state()


class _Switched(HouseThing):
    @override
    def put_back(self) -> None:
        self._attr_is_on = self._thing.state == "on"

    async def async_turn_on(self, **kwargs: Any) -> None:
        self._attr_is_on = True
        self._did("on")

    async def async_turn_off(self, **kwargs: Any) -> None:
        self._attr_is_on = False
        self._did("off")


class Light(_Switched, LightEntity):
    """A lamp with brightness and colours."""

    _attr_supported_color_modes = {ColorMode.RGB, ColorMode.COLOR_TEMP}  # noqa: RUF012
    _attr_color_mode = ColorMode.RGB

    @override
    def put_back(self) -> None:
        super().put_back()
        self._attr_brightness = self._thing.attributes.get("brightness") or 255

    @override
    async def async_turn_on(self, **kwargs: Any) -> None:
        self._attr_is_on = True
        self._attr_brightness = kwargs.get("brightness", self._attr_brightness)
        told = {
            key: value
            for key, value in kwargs.items()
            if key in ("brightness", "rgb_color", "color_temp_kelvin")
        }
        self._did("on", repr(sorted(told.items())))


class Switch(_Switched, SwitchEntity):
    """A socket."""


class Fan(_Switched, FanEntity):
    """A fan with any speed."""

    _attr_supported_features = (
        FanEntityFeature.SET_SPEED
        | FanEntityFeature.TURN_ON
        | FanEntityFeature.TURN_OFF
    )

    @override
    def put_back(self) -> None:
        self._attr_percentage = self._thing.attributes["percentage"]

    @override
    async def async_turn_on(
        self,
        percentage: int | None = None,
        preset_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._attr_percentage = percentage or 100
        self._did("on", percentage)

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        self._attr_percentage = 0
        self._did("off")

    @override
    async def async_set_percentage(self, percentage: int) -> None:
        self._attr_percentage = percentage
        self._did("speed", percentage)


class Humidifier(_Switched, HumidifierEntity):
    """A humidifier."""

    @override
    def put_back(self) -> None:
        super().put_back()
        self._attr_target_humidity = self._thing.attributes["humidity"]

    @override
    async def async_set_humidity(self, humidity: int) -> None:
        self._attr_target_humidity = humidity
        self._did("humidity", humidity)

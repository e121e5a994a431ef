"""Lights of the demo house, plain and dimmable."""

from typing import Any, override

from homeassistant.components.light import ATTR_BRIGHTNESS, ColorMode, LightEntity
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import ThingEntity, things
from .house import Thing


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Hang up the lights."""
    async_add_entities(DemoLight(thing) for thing in things("light", "dimmable"))


class DemoLight(ThingEntity, LightEntity):
    """A light that remembers what it was told."""

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.LIGHT)
        mode = ColorMode.BRIGHTNESS if thing.kind == "dimmable" else ColorMode.ONOFF
        self._attr_color_mode = mode
        self._attr_supported_color_modes = {mode}
        self._attr_is_on = bool(thing.start)
        self._attr_brightness = 255 if mode is ColorMode.BRIGHTNESS else None

    @override
    async def async_turn_on(self, **kwargs: Any) -> None:
        """Shine, with the brightness asked for (0 to 255) where there is one."""
        self._attr_is_on = True
        if ATTR_BRIGHTNESS in kwargs:
            self._attr_brightness = kwargs[ATTR_BRIGHTNESS]
        self.async_write_ha_state()

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        """Go dark."""
        self._attr_is_on = False
        self.async_write_ha_state()

"""Switches and outlets of the demo house."""

from typing import Any, override

from homeassistant.components.switch import SwitchDeviceClass, SwitchEntity
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
    """Install the switches."""
    async_add_entities(DemoSwitch(thing) for thing in things("switch", "outlet"))


class DemoSwitch(ThingEntity, SwitchEntity):
    """A switch that remembers what it was told."""

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.SWITCH)
        self._attr_device_class = (
            SwitchDeviceClass.OUTLET
            if thing.kind == "outlet"
            else SwitchDeviceClass.SWITCH
        )
        self._attr_is_on = bool(thing.start)

    @override
    async def async_turn_on(self, **kwargs: Any) -> None:
        """Switch on."""
        self._attr_is_on = True
        self.async_write_ha_state()

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        """Switch off."""
        self._attr_is_on = False
        self.async_write_ha_state()

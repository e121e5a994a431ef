"""Fans of the demo house."""

from typing import Any, override

from homeassistant.components.fan import FanEntity, FanEntityFeature
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
    """Install the fans."""
    async_add_entities(DemoFan(thing) for thing in things("fan"))


class DemoFan(ThingEntity, FanEntity):
    """A fan with a speed from 0 to 100 percent."""

    _attr_supported_features = (
        FanEntityFeature.SET_SPEED
        | FanEntityFeature.TURN_ON
        | FanEntityFeature.TURN_OFF
    )

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.FAN)
        self._attr_percentage = 100 if thing.start else 0

    @override
    async def async_turn_on(
        self,
        percentage: int | None = None,
        preset_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Blow, at full speed unless a speed is asked for."""
        await self.async_set_percentage(100 if percentage is None else percentage)

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        """Stop."""
        await self.async_set_percentage(0)

    @override
    async def async_set_percentage(self, percentage: int) -> None:
        """Blow at a speed."""
        self._attr_percentage = percentage
        self.async_write_ha_state()

"""Blinds, curtains, the awning and the garage door of the demo house."""

from typing import Any, override

from homeassistant.components.cover import (
    ATTR_POSITION,
    CoverDeviceClass,
    CoverEntity,
    CoverEntityFeature,
)
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
    """Hang up the covers."""
    async_add_entities(
        DemoCover(thing) for thing in things("blind", "curtain", "awning", "garage")
    )


class DemoCover(ThingEntity, CoverEntity):
    """A cover that moves at once; position 100 is open."""

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.COVER)
        self._attr_device_class = CoverDeviceClass(thing.kind)
        self._attr_supported_features = (
            CoverEntityFeature.OPEN | CoverEntityFeature.CLOSE
        )
        if thing.kind != "garage":
            self._attr_supported_features |= CoverEntityFeature.SET_POSITION
        self._attr_current_cover_position = 100 if thing.start else 0

    @property
    @override
    def is_closed(self) -> bool:
        """Whether it is all the way down."""
        return self.current_cover_position == 0

    @override
    async def async_open_cover(self, **kwargs: Any) -> None:
        """Open all the way."""
        await self.async_set_cover_position(**{ATTR_POSITION: 100})

    @override
    async def async_close_cover(self, **kwargs: Any) -> None:
        """Close all the way."""
        await self.async_set_cover_position(**{ATTR_POSITION: 0})

    @override
    async def async_set_cover_position(self, **kwargs: Any) -> None:
        """Move to a position from 0 to 100."""
        self._attr_current_cover_position = kwargs[ATTR_POSITION]
        self.async_write_ha_state()

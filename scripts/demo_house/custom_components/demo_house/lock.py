"""The lock of the demo house's front door."""

from typing import Any, override

from homeassistant.components.lock import LockEntity
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
    """Fit the locks."""
    async_add_entities(DemoLock(thing) for thing in things("lock"))


class DemoLock(ThingEntity, LockEntity):
    """A lock that turns at once."""

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.LOCK)
        self._attr_is_locked = not thing.start

    @override
    async def async_lock(self, **kwargs: Any) -> None:
        """Lock."""
        self._attr_is_locked = True
        self.async_write_ha_state()

    @override
    async def async_unlock(self, **kwargs: Any) -> None:
        """Unlock."""
        self._attr_is_locked = False
        self.async_write_ha_state()

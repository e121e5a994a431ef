"""Whether an engine is ready for questions."""

from typing import Final, override

from homeassistant.components.binary_sensor import (
    BinarySensorEntity,
    BinarySensorEntityDescription,
)
from homeassistant.components.binary_sensor.const import BinarySensorDeviceClass
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .engine_entity import FollowingEntity
from .runtime import LocalLlmConfigEntry

# Nothing is polled.
PARALLEL_UPDATES = 0

ENGINE_READY: Final = BinarySensorEntityDescription(
    key="engine_ready",
    device_class=BinarySensorDeviceClass.RUNNING,
    entity_category=EntityCategory.DIAGNOSTIC,
)


async def async_setup_entry(
    hass: HomeAssistant,
    entry: LocalLlmConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Set up the binary sensor of the entry's engine."""
    async_add_entities([EngineReady(entry, ENGINE_READY)])


class EngineReady(FollowingEntity, BinarySensorEntity):
    """On while the model is loaded and its thread takes requests."""

    @property
    @override
    def is_on(self) -> bool:
        """Ask the engine."""
        return self._runtime.engine.status().is_running

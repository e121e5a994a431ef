"""The device that stands for an entry's engine as a whole, and the base of the entities on it.

Knows nothing of agents; their devices only name this one as the way to them.
"""

from typing import override

from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.entity import Entity, EntityDescription

from .const import DOMAIN
from .runtime import LocalLlmConfigEntry

MANUFACTURER = "Local LLM"


@callback
def async_register_engine_device(
    hass: HomeAssistant, entry: LocalLlmConfigEntry, model: str
) -> str:
    """Make the engine's device, or name it as the entry is called now; return its id.

    The agents' devices refer to it, so it must stand before them.
    """
    device = dr.async_get(hass).async_get_or_create(
        config_entry_id=entry.entry_id,
        identifiers={(DOMAIN, entry.entry_id)},
        name=entry.title,
        manufacturer=MANUFACTURER,
        model=model,
        entry_type=dr.DeviceEntryType.SERVICE,
    )
    return device.id


class EngineEntity(Entity):
    """An entity of the engine as a whole; its texts and its icon go by the description's key."""

    _attr_has_entity_name = True
    _attr_should_poll = False

    def __init__(
        self, entry: LocalLlmConfigEntry, description: EntityDescription
    ) -> None:
        """Hang the entity on the engine's device, which stands already."""
        self.entity_description = description
        self._attr_translation_key = description.key
        self._attr_unique_id = f"{entry.entry_id}-{description.key}"
        self._attr_device_info = dr.DeviceInfo(identifiers={(DOMAIN, entry.entry_id)})


class FollowingEntity(EngineEntity):
    """An entity of the engine whose state is looked up anew whenever the engine has news."""

    def __init__(
        self, entry: LocalLlmConfigEntry, description: EntityDescription
    ) -> None:
        """Follow the entry's engine."""
        super().__init__(entry, description)
        self._runtime = entry.runtime_data

    @override
    async def async_added_to_hass(self) -> None:
        """Begin to follow; Home Assistant ends it with the entity."""
        self.async_on_remove(
            self._runtime.insight.async_add_listener(self.async_write_ha_state)
        )

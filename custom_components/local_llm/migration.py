"""Brings stored entries of earlier versions up to date; Home Assistant itself refuses those of later ones."""

from homeassistant.core import HomeAssistant, callback

from .const import CONF_DISK_CACHE_GIB, DEFAULT_DISK_CACHE_GIB
from .runtime import LocalLlmConfigEntry


@callback
def async_migrate(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Write into an entry what its version did not know yet."""
    if entry.minor_version < 2:
        hass.config_entries.async_update_entry(
            entry,
            data={CONF_DISK_CACHE_GIB: DEFAULT_DISK_CACHE_GIB, **entry.data},
            minor_version=2,
        )

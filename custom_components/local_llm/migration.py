"""Brings stored entries of earlier versions up to date; Home Assistant itself refuses those of later ones."""

from types import MappingProxyType

from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import CONF_MODEL
from homeassistant.core import HomeAssistant

from .const import (
    CONF_DISK_CACHE_GIB,
    CONF_KV_CACHE,
    CONF_WEIGHTS,
    DEFAULT_DISK_CACHE_GIB,
    DEFAULT_KV_CACHE,
    DEFAULT_WEIGHTS,
    SUBENTRY_AI_TASK,
)
from .runtime import LocalLlmConfigEntry
from .settings import default_task_data
from .spoken import async_task_name


async def async_migrate(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Give an entry what its version did not know yet, as a new one has it."""
    if entry.minor_version < 2:
        task = ConfigSubentry(
            subentry_type=SUBENTRY_AI_TASK,
            data=MappingProxyType(default_task_data(entry.data[CONF_MODEL])),
            title=await async_task_name(hass),
            unique_id=None,
        )
        hass.config_entries.async_add_subentry(entry, task)
        hass.config_entries.async_update_entry(
            entry,
            data={
                CONF_DISK_CACHE_GIB: DEFAULT_DISK_CACHE_GIB,
                CONF_WEIGHTS: DEFAULT_WEIGHTS,
                CONF_KV_CACHE: DEFAULT_KV_CACHE,
                **entry.data,
            },
            minor_version=2,
        )

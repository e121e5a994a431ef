"""Entries that another version stored."""

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.config_flow import LocalLlmConfigFlow
from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.settings import default_task_data
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from local_llm_engine.config import GIB

# What the first version asked for
FIRST = {
    "model": "builtin",
    "device": "cpu",
    "context_length": 4096,
    "prompt_cache_gib": 0.0625,
}


def stored(hass: HomeAssistant, **kwargs: int) -> MockConfigEntry:
    entry = MockConfigEntry(domain=DOMAIN, data=FIRST, **kwargs)
    entry.add_to_hass(hass)
    return entry


async def test_an_entry_of_the_first_version_takes_the_defaults_of_what_it_lacks(
    hass: HomeAssistant, home: None
) -> None:
    entry = stored(hass, version=1, minor_version=1)
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.minor_version == LocalLlmConfigFlow.MINOR_VERSION
    assert entry.data == {
        **FIRST,
        "disk_cache_gib": 4.0,
        "weights": "auto",
        "kv_cache": "bf16",
    }
    assert entry.runtime_data.engine.status().disk_cache_limit_bytes == 4 * GIB
    (task,) = entry.get_subentries_of_type("ai_task_data")
    assert task.data == default_task_data("builtin")
    assert len(hass.states.async_entity_ids("ai_task")) == 1
    await hass.config_entries.async_remove(entry.entry_id)


async def test_what_an_entry_has_stays(hass: HomeAssistant, home: None) -> None:
    entry = stored(hass, version=1, minor_version=1)
    hass.config_entries.async_update_entry(entry, data={**FIRST, "disk_cache_gib": 0})
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.data["disk_cache_gib"] == 0
    await hass.config_entries.async_remove(entry.entry_id)


async def test_an_entry_of_a_later_minor_version_is_loaded(
    hass: HomeAssistant, home: None
) -> None:
    """As after going back to an older release: what that does not know, it leaves alone."""
    entry = stored(hass, version=1, minor_version=99)
    hass.config_entries.async_update_entry(
        entry, data={**FIRST, "disk_cache_gib": 0, "new": True}
    )
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.minor_version == 99
    assert entry.data["new"] is True
    await hass.config_entries.async_remove(entry.entry_id)


async def test_an_entry_of_a_later_major_version_is_refused_with_words(
    hass: HomeAssistant, home: None, caplog: pytest.LogCaptureFixture
) -> None:
    entry = stored(hass, version=2, minor_version=1)
    assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.MIGRATION_ERROR
    assert "has version 2 which is higher than the current version 1" in caplog.text

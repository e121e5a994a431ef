"""Diagnostics tell numbers and settings, and nobody's words."""

import json

from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.components.diagnostics import (
    get_diagnostics_for_config_entry,
)
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.local_llm.runtime import cache_folder
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from local_llm_engine.config import GIB

from .conftest import ask


async def test_diagnostics(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: MockConfigEntry,
    socket_enabled: None,
) -> None:
    await ask(hass, "Turn on the Office Floor Lamp", "Kitchen Voice")
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert told["data"]["model"] == "builtin"
    assert told["agents"][0]["data"]["prompt"] == "**REDACTED**"
    assert told["agents"][0]["data"]["llm_hass_api"] == ["assist"]
    assert told["data"]["disk_cache_gib"] == 0.0625
    assert told["engine"]["records"][0]["usage"]["prompt_tokens"] > 0
    assert told["engine"]["disk_cache_bytes"] >= 0
    assert told["engine"]["disk_cache_limit_bytes"] == GIB // 16
    assert told["prompts"][-1]["satellite"] is None
    assert "Office Floor Lamp" not in json.dumps(told)


async def test_diagnostics_do_not_tell_where_home_assistant_lies(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: MockConfigEntry,
    socket_enabled: None,
) -> None:
    folder = cache_folder(hass, entry)
    assert await hass.config_entries.async_unload(entry.entry_id)
    folder.rmdir()
    folder.write_text("no folder")
    assert await hass.config_entries.async_setup(entry.entry_id)
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    (notice,) = told["engine"]["notices"]
    assert f"/config/.cache/local_llm/{entry.entry_id}" in notice
    assert hass.config.config_dir not in json.dumps(told)


async def test_diagnostics_of_an_entry_that_is_not_loaded(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: MockConfigEntry,
    socket_enabled: None,
) -> None:
    hass.config_entries.async_update_entry(
        entry, data={**entry.data, "model": "/home/anna/models/qwen"}
    )
    await hass.async_block_till_done()
    assert entry.state is ConfigEntryState.SETUP_ERROR
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert told["data"]["model"] == "qwen"
    assert "engine" not in told
    assert "anna" not in json.dumps(told)

"""Diagnostics tell numbers and settings, and nobody's words."""

import json

from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.components.diagnostics import (
    get_diagnostics_for_config_entry,
)
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant

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
    assert told["engine"]["records"][0]["usage"]["prompt_tokens"] > 0
    assert told["prompts"][-1]["satellite"] is None
    assert "Office Floor Lamp" not in json.dumps(told)


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

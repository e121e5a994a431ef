"""Diagnostics tell numbers and settings, and nobody's words."""

import json
from pathlib import Path

from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.components.diagnostics import (
    get_diagnostics_for_config_entry,
)
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.runtime import cache_folder
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from local_llm_engine.config import GIB

from .conftest import AddEntry, AddScripted, ask
from .scripted import RECORD, calls, says

# Planted wherever anybody's words or a secret could be
SECRET = "xyzzy"


async def test_diagnostics(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    house: None,
    add_entry: AddEntry,
    socket_enabled: None,
) -> None:
    entry = await add_entry({"prompt": f"Never say {SECRET}."})
    await ask(hass, f"Turn on the Office Floor Lamp, {SECRET}", "Kitchen Voice")
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert told["data"]["model"] == "builtin"
    assert told["agents"][0]["data"]["prompt"] == "**REDACTED**"
    assert told["agents"][0]["data"]["llm_hass_api"] == ["assist"]
    assert told["data"]["disk_cache_gib"] == 0.0625
    assert told["engine"]["records"][0]["usage"]["prompt_tokens"] > 0
    assert told["engine"]["disk_cache_bytes"] >= 0
    assert told["engine"]["disk_cache_limit_bytes"] == GIB // 16
    assert told["prompts"][-1]["satellite"] is None
    assert told["state"] == "loaded"
    assert told["last_warm_up"] is None
    assert told["hit_rate_percent"] > 0
    assert "Office Floor Lamp" not in json.dumps(told)
    assert SECRET not in json.dumps(told)


async def test_diagnostics_tell_of_the_last_warm_up(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: MockConfigEntry,
    socket_enabled: None,
) -> None:
    entry.runtime_data.warm_up.async_run_now()
    await hass.async_block_till_done(wait_background_tasks=True)
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert told["last_warm_up"]["num_warm"] == 4
    assert told["last_warm_up"]["ended_at"] == "2026-11-30T14:05:00+00:00"


async def test_diagnostics_tell_no_secret_and_nobodys_words(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    scripted: AddScripted,
    socket_enabled: None,
) -> None:
    """Neither a token, nor instructions, a question, an answer, a call, a notice or a title."""
    engine = await scripted(
        calls("intent__HassTurnOn", name=SECRET),
        says(f"I know no {SECRET}."),
        agent={"prompt": f"Never say {SECRET}.", "voice": SECRET},
        options={"warm_up": False, "note": SECRET},
        token=SECRET,
        model=f"/home/{SECRET}/qwen",
    )
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    hass.config_entries.async_update_entry(entry, title=SECRET)
    engine.notices = (
        f"/home/{SECRET}/qwen is slow",
        f"{Path.home()}/{DOMAIN} is full",
    )
    await ask(hass, f"Where is {SECRET}?", "Kitchen Voice")
    engine.tell(RECORD)
    told = await get_diagnostics_for_config_entry(hass, hass_client, entry)
    assert told["engine"]["notices"] == ["qwen is slow", f"~/{DOMAIN} is full"]
    assert told["data"]["token"] == "**REDACTED**"
    assert SECRET not in json.dumps(told)


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
    assert told["error"] == "model_unreadable"
    assert "engine" not in told
    assert "anna" not in json.dumps(told)

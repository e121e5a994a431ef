"""An entry whose weights are to be converted: Home Assistant does not wait for that, and everybody sees how far it is."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
import shutil
from typing import Any
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.diagnostics import async_get_config_entry_diagnostics
from homeassistant.config_entries import ConfigEntryDisabler, ConfigEntryState
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import ConversionError, NotConvertedError
from local_llm_engine.service import Engine

from ..conftest import ask, new_entry, speech
from ..held_conversions import HeldConversion, held, kept, kept_of
from ..scripted import ScriptedEngine, says
from ..test_init import ENGINE_THREADS, engine_threads

__all__ = ["held"]

READY = "binary_sensor.local_llm_nano_engine_ready"
PERCENT = "sensor.local_llm_nano_weights_prepared"
type Add = Callable[..., MockConfigEntry]


@pytest.fixture
async def add(hass: HomeAssistant, house: None) -> Any:
    """Add entries with 4-bit weights that nobody has converted yet, as after a backup was restored."""

    def add_entry(**data: Any) -> MockConfigEntry:
        unconverted = {"context_length": 4096, "disk_cache_gib": 0, "weights": "int4"}
        entry = new_entry(**unconverted | data)
        entry.add_to_hass(hass)
        return entry

    yield add_entry
    await hass.async_block_till_done(wait_background_tasks=True)
    for entry in hass.config_entries.async_entries(DOMAIN):
        await hass.config_entries.async_remove(entry.entry_id)


@pytest.fixture
async def entry(hass: HomeAssistant, add: Add, held: HeldConversion) -> MockConfigEntry:
    """An entry that is set up while its weights are in the middle of their conversion."""
    entry = add()
    assert await hass.config_entries.async_setup(entry.entry_id)
    await held.until_held(hass)
    await hass.async_block_till_done()
    return entry


async def finish(hass: HomeAssistant, held: HeldConversion) -> None:
    held.go_on()
    await hass.async_block_till_done(wait_background_tasks=True)


async def test_the_set_up_does_not_wait_and_the_engine_comes_by_itself(
    hass: HomeAssistant, entry: MockConfigEntry, held: HeldConversion
) -> None:
    assert entry.state is ConfigEntryState.LOADED
    assert hass.states.get(READY).state == "off"
    assert 0 < int(hass.states.get(PERCENT).state) < 100
    assert [path.suffix for path in kept_of(hass, entry.data)] == [".partial"]
    await finish(hass, held)
    assert entry.state is ConfigEntryState.LOADED
    assert hass.states.get(READY).state == "on"
    assert hass.states.get(PERCENT).state == "100"
    assert entry.runtime_data.engine.status().weights == "int4"
    assert [path.suffix for path in kept_of(hass, entry.data)] == [".safetensors"]
    assert speech(await ask(hass, "hello"))


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "still being prepared"), ("de", "noch vorbereitet"), ("xx", "prepared")],
)
async def test_who_asks_meanwhile_is_told(
    hass: HomeAssistant, entry: MockConfigEntry, language: str, words: str
) -> None:
    answer = speech(await ask(hass, "hello", "Kitchen Voice", language=language))
    assert words in answer
    assert hass.states.get(PERCENT).state in answer


async def test_actions_and_the_button_say_so_too(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    pressed = ("button", "press", {"entity_id": "button.local_llm_nano_warm_up_now"})
    for domain, action, data in (
        pressed,
        (DOMAIN, "warm_up", {}),
        (DOMAIN, "inspect_prompt", {}),
    ):
        with pytest.raises(HomeAssistantError) as raised:
            await hass.services.async_call(
                domain,
                action,
                data,
                blocking=True,
                return_response=action == "inspect_prompt",
            )
        assert raised.value.translation_key == "engine_preparing"


async def test_diagnostics_say_what_is_coming(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    told = await async_get_config_entry_diagnostics(hass, entry)
    assert told["engine"]["model"]["name"] == "nano"
    assert told["engine"]["weights"] == "int4"
    assert told["data"]["weights"] == "int4"
    (notice,) = told["engine"]["notices"]
    assert (
        notice == f"the weights are being converted: {hass.states.get(PERCENT).state} %"
    )


async def test_nothing_is_warmed_up_before_there_is_an_engine(
    hass: HomeAssistant, entry: MockConfigEntry, held: HeldConversion
) -> None:
    hass.config_entries.async_update_entry(entry, options={"warm_up": True})
    await hass.async_block_till_done()
    assert entry.runtime_data.warm_up.last_run is None
    await finish(hass, held)
    assert entry.runtime_data.warm_up.last_run.num_warm == 1


async def remove(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    await hass.config_entries.async_remove(entry.entry_id)


async def disable(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    await hass.config_entries.async_set_disabled_by(
        entry.entry_id, ConfigEntryDisabler.USER
    )


async def stop(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    await hass.async_stop(force=True)


@pytest.mark.parametrize("end", [remove, disable, stop])
async def test_its_end_is_that_of_the_conversion(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[HomeAssistant, MockConfigEntry], Awaitable[None]],
) -> None:
    caplog.clear()
    await end(hass, entry)
    assert [path for path in kept(hass) if path.is_file()] == []
    assert engine_threads() == []
    await hass.async_block_till_done(wait_background_tasks=True)
    assert [record.message for record in caplog.records if record.exc_info] == []


async def test_a_removed_entry_leaves_no_folder(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    await remove(hass, entry)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert kept(hass) == []


async def test_an_entry_that_was_disabled_meanwhile_begins_again(
    hass: HomeAssistant, entry: MockConfigEntry, held: HeldConversion
) -> None:
    await disable(hass, entry)
    held.go_on()
    held.converted.clear()
    await hass.config_entries.async_set_disabled_by(entry.entry_id, None)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert len(held.converted) > 20
    assert entry.runtime_data.engine.status().is_running
    assert engine_threads() == ENGINE_THREADS[1:]


async def test_other_settings_begin_another_conversion(
    hass: HomeAssistant, entry: MockConfigEntry, held: HeldConversion
) -> None:
    before = kept_of(hass, entry.data)
    hass.config_entries.async_update_entry(
        entry, data={**entry.data, "weights": "int8"}
    )
    await finish(hass, held)
    assert entry.runtime_data.engine.status().weights == "int8"
    assert len(kept_of(hass, entry.data)) == 1
    assert not before[0].parent.exists()


async def test_a_failure_is_told_and_tried_again_when_somebody_wants_it(
    hass: HomeAssistant, add: Add
) -> None:
    entry = add()
    full = ConversionError("3 bytes have no room")
    with patch.object(Engine, "convert", side_effect=full) as convert:
        await hass.config_entries.async_setup(entry.entry_id)
        await hass.async_block_till_done(wait_background_tasks=True)
        assert entry.state is ConfigEntryState.SETUP_ERROR
        assert entry.error_reason_translation_key == "weights_not_kept"
        assert "3 bytes have no room" in entry.reason
        assert convert.call_count == 1
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert entry.state is ConfigEntryState.LOADED
    assert entry.runtime_data.engine.status().weights == "int4"


async def test_any_engine_takes_the_place_of_what_stood_for_it(
    hass: HomeAssistant, add: Add
) -> None:
    engine = ScriptedEngine(says("Yes."))
    loads = [NotConvertedError("int4"), engine]
    with (
        patch.object(Engine, "load", side_effect=loads) as load,
        patch.object(Engine, "convert") as convert,
    ):
        entry = add()
        await hass.config_entries.async_setup(entry.entry_id)
        await hass.async_block_till_done(wait_background_tasks=True)
    assert entry.runtime_data.engine is engine
    assert speech(await ask(hass, "hello")) == "Yes."
    assert hass.states.get(PERCENT).state == "100"
    assert (load.call_count, convert.call_count) == (2, 1)


async def test_damaged_weights_are_made_anew_in_the_background(
    hass: HomeAssistant, add: Add
) -> None:
    entry = add()
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done(wait_background_tasks=True)
    (file,) = kept_of(hass, entry.data)
    assert await hass.config_entries.async_unload(entry.entry_id)
    data = await hass.async_add_executor_job(file.read_bytes)
    file.write_bytes(data[:-64])
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert not entry.runtime_data.engine.status().is_running
    await hass.async_block_till_done(wait_background_tasks=True)
    assert entry.runtime_data.engine.status().is_running
    assert await hass.async_add_executor_job(file.read_bytes) == data


async def test_a_second_entry_waits_for_the_first_ones_weights(
    hass: HomeAssistant, entry: MockConfigEntry, add: Add, held: HeldConversion
) -> None:
    second = add()
    assert await hass.config_entries.async_setup(second.entry_id)
    assert second.state is ConfigEntryState.LOADED
    await finish(hass, held)
    assert len(held.converted) == len(set(held.converted))
    assert second.runtime_data.engine.status().weights == "int4"
    await hass.config_entries.async_remove(entry.entry_id)
    assert kept_of(hass, second.data)
    await hass.config_entries.async_remove(second.entry_id)
    assert kept(hass) == []


async def test_weights_beside_the_model_are_taken_and_stay(
    hass: HomeAssistant, add: Add, held: HeldConversion, tmp_path: Path
) -> None:
    """Made on the command line, or brought along with the model."""
    folder = shutil.copytree(NANO_PATH, tmp_path / "model")
    held.go_on()
    config = EngineConfig(weights="int4")
    await hass.async_add_executor_job(Engine.convert, folder, config)
    held.converted.clear()
    entry = add(model=str(folder))
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.runtime_data.engine.status().weights == "int4"
    assert held.converted == []
    assert kept(hass) == []
    await remove(hass, entry)
    assert len(list((folder / "local_llm").iterdir())) == 1


def left_behind(hass: HomeAssistant) -> Path:
    """Leave what a crash leaves."""
    folder = Path(hass.config.cache_path(DOMAIN, "weights", "gone-0123"))
    folder.mkdir(parents=True)
    (folder / "weights.partial").touch()
    return folder


async def test_what_nobody_has_any_more_goes_at_the_next_start(
    hass: HomeAssistant, add: Add
) -> None:
    entry = add(weights="auto")
    left_behind(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert kept(hass) == []


async def test_a_folder_that_cannot_be_removed_is_told(
    hass: HomeAssistant, add: Add, caplog: pytest.LogCaptureFixture
) -> None:
    entry = add(weights="auto")
    left = left_behind(hass)
    with patch(
        "custom_components.local_llm.weights.kept.shutil.rmtree",
        side_effect=PermissionError("no"),
    ):
        assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.LOADED
    assert f"Could not remove the weights in {left}: no" in caplog.text


async def test_the_set_up_takes_no_time_for_the_conversion(
    hass: HomeAssistant, add: Add, held: HeldConversion
) -> None:
    """Where the conversion never ends, the set-up still does."""
    entry = add()
    async with asyncio.timeout(60):
        assert await hass.config_entries.async_setup(entry.entry_id)
    status = entry.runtime_data.engine.status()
    assert asdict(status)["weights_bytes"] == 0

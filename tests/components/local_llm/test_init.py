"""Loading and letting go of an entry."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import shutil
import sys
import threading
import time
from typing import Any
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_capture_events,
)

from custom_components.local_llm.config_flow import LocalLlmConfigFlow
from custom_components.local_llm.const import DOMAIN
from homeassistant.config_entries import ConfigEntryState
from homeassistant.const import EVENT_HOMEASSISTANT_STOP, EVENT_STATE_CHANGED
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.errors import OutOfMemoryError
from local_llm_engine.weights.safetensors import SafetensorsFolder

from .conftest import AGENT, AddEntry, AddScripted, ask, speech
from .integration_files import FOLDER, MODULES
from .scripted import ScriptedEngine, says

SMALL = {
    "model": "builtin",
    "device": "cpu",
    "prompt_cache_gib": 0,
    "disk_cache_gib": 0,
    "context_length": 1024,
}
NATIVE = ("torch", "tokenizers", "safetensors", "llguidance", "huggingface_hub")
# What of the engine is there before anything native is
DOOR = ("", ".types", ".errors", ".config", ".builtin")
ENGINE_THREADS = ["local_llm_disk", "local_llm_engine"]


def engine_threads() -> list[str]:
    """The names of the threads that engines have."""
    return sorted(
        thread.name for thread in threading.enumerate() if "llm" in thread.name.lower()
    )


async def test_unload_leaves_nothing_behind(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    engine = entry.runtime_data.engine
    await ask(hass, "what time is it", "Kitchen Voice")
    assert engine_threads() == ENGINE_THREADS
    assert engine.status().prompt_cache_bytes > 0
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert entry.state is ConfigEntryState.NOT_LOADED
    assert engine_threads() == []
    assert engine.status().prompt_cache_bytes == 0
    assert hass.states.get(AGENT).state == "unavailable"


async def test_reload(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert engine_threads() == ENGINE_THREADS
    assert speech(await ask(hass, "what time is it")) == "It is 14:05."


async def test_remove(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    await hass.config_entries.async_remove(entry.entry_id)
    await hass.async_block_till_done()
    assert engine_threads() == []
    assert hass.states.get(AGENT) is None


async def test_home_assistants_end_is_the_engines(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    hass.bus.async_fire(EVENT_HOMEASSISTANT_STOP)
    await hass.async_block_till_done()
    assert engine.closed


@pytest.fixture
def endless_load() -> Iterator[asyncio.Event]:
    """Let a load take its time for every tensor; it ends by itself only after minutes."""
    begun = asyncio.Event()
    loop = asyncio.get_event_loop()
    tensor = SafetensorsFolder.tensor

    def slow(self: SafetensorsFolder, name: str) -> Any:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.5)
        return tensor(self, name)

    with patch.object(SafetensorsFolder, "tensor", slow):
        yield begun


def small_entry(hass: HomeAssistant) -> MockConfigEntry:
    entry = MockConfigEntry(
        domain=DOMAIN, minor_version=LocalLlmConfigFlow.MINOR_VERSION, data=SMALL
    )
    entry.add_to_hass(hass)
    return entry


async def begin_load(hass: HomeAssistant, begun: asyncio.Event) -> MockConfigEntry:
    entry = small_entry(hass)
    hass.async_create_task(hass.config_entries.async_setup(entry.entry_id))
    await begun.wait()
    return entry


async def test_home_assistants_end_is_that_of_a_load(
    hass: HomeAssistant, home: None, endless_load: asyncio.Event
) -> None:
    entry = await begin_load(hass, endless_load)
    assert engine_threads() == ENGINE_THREADS[1:]
    hass.bus.async_fire(EVENT_HOMEASSISTANT_STOP)
    async with asyncio.timeout(30):
        await hass.async_block_till_done()
    assert entry.state is ConfigEntryState.SETUP_RETRY
    assert entry.error_reason_translation_key == "loading_stopped"
    assert engine_threads() == []
    await hass.config_entries.async_remove(entry.entry_id)


async def test_a_set_up_that_is_cancelled_ends_its_load(
    hass: HomeAssistant, home: None, endless_load: asyncio.Event
) -> None:
    task = asyncio.create_task(begin_load(hass, endless_load))
    entry = await task
    (setup,) = (
        task
        for task in asyncio.all_tasks()
        if "ConfigEntries.async_setup" in repr(task)
    )
    setup.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait([setup])
    assert engine_threads() == []
    await hass.config_entries.async_remove(entry.entry_id)


async def test_an_engine_that_comes_as_home_assistant_stops_is_closed(
    hass: HomeAssistant, home: None
) -> None:
    """The load has ended, and nobody was told yet when the end came."""
    engine = ScriptedEngine(says("Yes."))

    def load(*args: Any, **kwargs: Any) -> ScriptedEngine:
        stopped = threading.Event()
        hass.loop.call_soon_threadsafe(
            lambda: (hass.bus.async_fire(EVENT_HOMEASSISTANT_STOP), stopped.set())
        )
        stopped.wait()
        return engine

    with patch("local_llm_engine.service.Engine.load", side_effect=load):
        entry = small_entry(hass)
        assert not await hass.config_entries.async_setup(entry.entry_id)
    assert engine.closed
    assert entry.state is ConfigEntryState.SETUP_RETRY
    await hass.config_entries.async_remove(entry.entry_id)


@pytest.mark.parametrize(
    "what_goes_on",
    [
        "local_llm_engine.service.Engine.load",
        "custom_components.local_llm.weights.kept._remove",
    ],
)
async def test_an_engine_that_comes_as_its_set_up_is_cancelled_is_closed(
    hass: HomeAssistant, home: None, what_goes_on: str
) -> None:
    """It is being loaded, or what the entry had before is being removed."""
    engine = ScriptedEngine(says("Yes."))
    has_begun, may_end = asyncio.Event(), threading.Event()

    def hold(*args: Any, **kwargs: Any) -> ScriptedEngine:
        hass.loop.call_soon_threadsafe(has_begun.set)
        assert may_end.wait(30)
        return engine

    with (
        patch("local_llm_engine.service.Engine.load", return_value=engine),
        patch(what_goes_on, hold),
    ):
        entry = small_entry(hass)
        setup = asyncio.create_task(hass.config_entries.async_setup(entry.entry_id))
        await has_begun.wait()
        setup.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait([setup])
        await hass.async_block_till_done()
    assert engine.closed
    await hass.config_entries.async_remove(entry.entry_id)


@pytest.mark.parametrize(
    "what_goes_on",
    [
        "homeassistant.config_entries.ConfigEntries.async_unload_platforms",
        "custom_components.local_llm.warming.warm_up.WarmUp.async_end",
    ],
)
async def test_an_engine_whose_unloading_is_cancelled_is_closed(
    hass: HomeAssistant, scripted: AddScripted, what_goes_on: str
) -> None:
    """A browser asked for a reload and went away; removed, the entry is not unloaded any more."""
    engine = await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    has_begun = asyncio.Event()

    async def hold(*args: Any) -> bool:
        has_begun.set()
        await asyncio.Event().wait()
        return True

    with patch(what_goes_on, hold):
        unloading = asyncio.create_task(
            hass.config_entries.async_unload(entry.entry_id)
        )
        await has_begun.wait()
        unloading.cancel()
        await asyncio.wait([unloading])
    assert entry.state is ConfigEntryState.UNLOAD_IN_PROGRESS
    assert engine.closed


async def test_an_engine_that_is_to_be_closed_when_a_thread_is_free_is_closed(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """Its unloading was cancelled meanwhile."""
    engine = await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    is_free, run = threading.Event(), hass.loop.run_in_executor
    unloading: asyncio.Task[bool]

    def run_on_one(_: None, work: Callable[..., Any], *args: Any) -> Any:
        if work == engine.close:
            hass.loop.call_soon(unloading.cancel)
            hass.loop.call_soon(is_free.set)
        return run(thread, work, *args)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(is_free.wait, 30)
        with patch.object(hass.loop, "run_in_executor", run_on_one):
            unloading = asyncio.create_task(
                hass.config_entries.async_unload(entry.entry_id)
            )
            await asyncio.wait([unloading])
    assert entry.state is ConfigEntryState.UNLOAD_IN_PROGRESS
    assert engine.closed


async def test_an_engine_is_closed_when_its_agents_cannot_be_set_up(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    with (
        patch(
            "homeassistant.config_entries.ConfigEntries.async_forward_entry_setups",
            side_effect=RuntimeError("no"),
        ),
        pytest.raises(AssertionError),
    ):
        await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    assert entry.state is ConfigEntryState.SETUP_ERROR
    assert engine_threads() == []


@pytest.fixture
def broken_entry(hass: HomeAssistant, tmp_path: Path) -> MockConfigEntry:
    folder = shutil.copytree(NANO_PATH, tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-16])
    entry = MockConfigEntry(
        domain=DOMAIN,
        data={
            "model": str(folder),
            "device": "cpu",
            "prompt_cache_gib": 1.0,
            "context_length": 4096,
        },
    )
    entry.add_to_hass(hass)
    return entry


async def test_a_broken_model_leaves_a_message_and_home_assistant_running(
    hass: HomeAssistant, home: None, broken_entry: MockConfigEntry
) -> None:
    assert not await hass.config_entries.async_setup(broken_entry.entry_id)
    assert broken_entry.state is ConfigEntryState.SETUP_ERROR
    assert broken_entry.error_reason_translation_key == "weights_damaged"
    assert "weights are damaged" in broken_entry.reason
    assert hass.is_running
    assert engine_threads() == []


@pytest.mark.parametrize(
    ("error", "key"),
    [
        (MemoryError(), "memory_too_small"),
        (OutOfMemoryError("cpu", 1), "memory_too_small"),
        (RuntimeError("boom"), "load_failed"),
    ],
    ids=["memory", "the engine's memory", "anything"],
)
async def test_no_error_of_a_model_escapes(
    hass: HomeAssistant,
    home: None,
    broken_entry: MockConfigEntry,
    error: Exception,
    key: str,
) -> None:
    with patch("local_llm_engine.service.Engine.load", side_effect=error):
        assert not await hass.config_entries.async_setup(broken_entry.entry_id)
    assert broken_entry.error_reason_translation_key == key


async def test_settings_out_of_range_leave_a_message(
    hass: HomeAssistant, home: None, broken_entry: MockConfigEntry
) -> None:
    hass.config_entries.async_update_entry(
        broken_entry, data={**broken_entry.data, "context_length": 1}
    )
    assert not await hass.config_entries.async_setup(broken_entry.entry_id)
    assert broken_entry.error_reason_translation_key == "settings_invalid"


async def test_two_entries_side_by_side(
    hass: HomeAssistant, house: None, add_entry: AddEntry
) -> None:
    await add_entry()
    second = await add_entry()
    assert second.state is ConfigEntryState.LOADED
    assert engine_threads() == sorted(ENGINE_THREADS * 2)
    assert len(hass.states.async_entity_ids("conversation")) == 3


async def test_a_renamed_entry_keeps_its_engine(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    engine = entry.runtime_data.engine
    hass.config_entries.async_update_entry(entry, title="Butler")
    await hass.async_block_till_done()
    assert entry.runtime_data.engine is engine
    assert hass.states.get(AGENT).state != "unavailable"


async def test_a_changed_agent_is_replaced_and_nothing_else(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    engine = entry.runtime_data.engine
    changes = async_capture_events(hass, EVENT_STATE_CHANGED)
    (subentry,) = entry.subentries.values()
    hass.config_entries.async_update_subentry(
        entry, subentry, data={**subentry.data, "prompt": "Be brief."}
    )
    await hass.async_block_till_done()
    assert {change.data["entity_id"] for change in changes} == {AGENT}
    assert entry.runtime_data.engine is engine


async def test_changed_options_replace_nothing(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    changes = async_capture_events(hass, EVENT_STATE_CHANGED)
    hass.config_entries.async_update_entry(entry, options={"warm_up": True})
    await hass.async_block_till_done(wait_background_tasks=True)
    assert changes
    assert "unavailable" not in {change.data["new_state"].state for change in changes}
    assert entry.runtime_data.engine.status().records


async def test_a_change_just_before_the_end_revives_nothing(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    (subentry,) = entry.subentries.values()
    async with entry.runtime_data.updating:
        hass.config_entries.async_update_subentry(
            entry, subentry, data={**subentry.data, "prompt": "Be brief."}
        )
        hass.config_entries.async_update_entry(entry, options={"warm_up": True})
        unload = hass.async_create_task(
            hass.config_entries.async_unload(entry.entry_id)
        )
        await asyncio.sleep(0)
    assert await unload
    await hass.async_block_till_done(wait_background_tasks=True)
    assert hass.states.get(AGENT).state == "unavailable"
    assert engine.warmed == []


async def test_no_module_imports_what_some_systems_cannot_install(
    hass: HomeAssistant,
) -> None:
    """There the config flow must open all the same, and say what is missing; only the hub's modules need its library."""
    names = [
        f"custom_components.local_llm.{name}"
        for module in MODULES
        if (name := ".".join(module.relative_to(FOLDER).with_suffix("").parts))
        not in {"hub.hub", "hub.files"}
    ]
    names += [f"local_llm_engine{part}" for part in DOOR]
    code = (
        f"import importlib, sys; sys.modules |= dict.fromkeys({NATIVE}); "
        f"[importlib.import_module(name) for name in {names}]"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def test_actions_are_there_before_any_entry(
    hass: HomeAssistant, home: None
) -> None:
    assert await async_setup_component(hass, DOMAIN, {})
    assert hass.services.has_service(DOMAIN, "warm_up")

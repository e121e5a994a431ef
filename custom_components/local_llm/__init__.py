"""Local LLM: answers a home's voice assistant from a language model that runs on the home's own machine."""

import asyncio
from pathlib import Path
import sys

# A release carries the engine in here; in a clone it lies elsewhere and is installed.
if (_engine := Path(__file__).parent / "engine").is_dir():
    sys.path.insert(0, str(_engine))

from homeassistant.config_entries import ConfigEntryState
from homeassistant.const import EVENT_HOMEASSISTANT_STOP, Platform
from homeassistant.core import Event, HomeAssistant
from homeassistant.exceptions import ConfigEntryError, ConfigEntryNotReady
from homeassistant.helpers import config_validation as cv
from homeassistant.helpers.typing import ConfigType

from .const import DOMAIN
from .engine_entity import async_register_engine_device
from .failures import LOADING_STOPPED, MEMORY_TOO_SMALL, EngineUnavailableError
from .hub.left_models import async_tell_left_models
from .insight import Insight
from .machine.memory_issue import async_clear_memory_issue, async_raise_memory_issue
from .machine.torch_issue import async_tell_torch
from .migration import async_migrate
from .prompts.history import PromptHistory, async_remove_history
from .runtime import (
    LocalLlmConfigEntry,
    LocalLlmRuntimeData,
    as_agents,
    async_close,
    async_load_engine,
    async_remove_cache,
)
from .services import async_setup_services
from .warming.prefetch import Prefetch
from .warming.warm_up import WarmUp
from .weights.kept import async_remove_unused_weights
from .weights.preparation import EngineInPreparation, async_prepare

CONFIG_SCHEMA = cv.config_entry_only_config_schema(DOMAIN)
# What stands for agents, and is replaced when one of them changes
AGENT_PLATFORMS = (Platform.AI_TASK, Platform.CONVERSATION)
# What stands for the engine as a whole
ENGINE_PLATFORMS = (Platform.BINARY_SENSOR, Platform.BUTTON, Platform.SENSOR)
PLATFORMS = (*AGENT_PLATFORMS, *ENGINE_PLATFORMS)


async def async_setup(hass: HomeAssistant, config: ConfigType) -> bool:
    """Register the actions: they are there, and can say so, also while no engine is loaded."""
    async_setup_services(hass)
    return True


async def async_setup_entry(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> bool:
    """Load the entry's engine and set up its agents."""
    try:
        engine = await async_load_engine(hass, entry)
    except EngineUnavailableError as err:
        if err.failure.key == MEMORY_TOO_SMALL:
            async_raise_memory_issue(hass, entry)
        # Home Assistant stops; there is nothing wrong with the entry.
        kind = (
            ConfigEntryNotReady
            if err.failure.key == LOADING_STOPPED
            else ConfigEntryError
        )
        raise kind(
            translation_domain=DOMAIN,
            translation_key=err.failure.key,
            translation_placeholders={"detail": err.failure.detail},
        ) from err

    async_clear_memory_issue(hass, entry)

    async def close(_: Event | None = None) -> None:
        """Stop the engine's thread and free its memory."""
        await async_close(hass, engine)

    entry.async_on_unload(close)
    entry.async_on_unload(hass.bus.async_listen_once(EVENT_HOMEASSISTANT_STOP, close))
    # What the entry had before is not needed any more.
    await async_remove_unused_weights(hass)

    prompt_history = PromptHistory(hass, entry, engine)
    await prompt_history.async_load()
    entry.async_on_unload(prompt_history.async_stop)
    warm_up = WarmUp(hass, entry, engine, prompt_history)
    insight = Insight(hass, entry, engine, warm_up)
    entry.runtime_data = LocalLlmRuntimeData(
        engine=engine,
        engine_device_id=async_register_engine_device(
            hass, entry, engine.status().model.name
        ),
        loaded_with=entry.data,
        agents=as_agents(entry),
        warm_up=warm_up,
        prefetch=Prefetch(hass, engine),
        insight=insight,
        prompt_history=prompt_history,
    )
    insight.async_start()
    entry.async_on_unload(insight.async_stop)
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    warm_up.async_start()
    entry.async_on_unload(warm_up.async_stop)
    if isinstance(engine, EngineInPreparation):
        entry.async_create_background_task(
            hass, async_prepare(hass, entry, engine), name=f"{DOMAIN} conversion"
        )
    entry.async_on_unload(entry.add_update_listener(_async_entry_updated))
    return True


async def async_migrate_entry(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> bool:
    """Bring an entry of an earlier version up to date."""
    await async_migrate(hass, entry)
    return True


async def async_unload_entry(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> bool:
    """Take the entities away, then close the engine.

    Home Assistant waits for ten seconds at most for what else is to end with an entry, and an engine that has still
    to end a step on a slow machine would then lie in memory beside the next one.
    """
    runtime = entry.runtime_data
    try:
        async with runtime.updating:
            if not await hass.config_entries.async_unload_platforms(entry, PLATFORMS):
                return False
        await runtime.warm_up.async_end()
    except asyncio.CancelledError:
        # A browser left in the middle of a reload: Home Assistant never unloads this entry again, not even to remove it.
        runtime.warm_up.async_stop()
        await async_close(hass, runtime.engine)
        raise
    await async_close(hass, runtime.engine)
    return True


async def async_remove_entry(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Leave nothing behind: what the engine kept on disk goes with the entry, converted weights too, and so do its issues.

    A downloaded model stays, and is told.
    """
    async_clear_memory_issue(hass, entry)
    async_tell_torch(hass, entry, None)
    await async_tell_left_models(hass)
    await async_remove_unused_weights(hass)
    await async_remove_cache(hass, entry)
    await async_remove_history(hass, entry)


async def _async_entry_updated(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Apply changes of an entry.

    Only a change of the engine's own settings loads it anew: what it has read already is worth
    minutes on a slow machine, and a new temperature does not take it away. Only a change of its
    agents replaces them, and nothing replaces what stands for the engine.
    """
    runtime = entry.runtime_data
    if runtime.loaded_with != entry.data:
        hass.config_entries.async_schedule_reload(entry.entry_id)
        return
    async with runtime.updating:
        if entry.state is not ConfigEntryState.LOADED:
            # It was unloaded while this change waited for an earlier one.
            return
        async_register_engine_device(hass, entry, runtime.engine.status().model.name)
        if runtime.agents != (agents := as_agents(entry)):
            runtime.agents = agents
            await hass.config_entries.async_unload_platforms(entry, AGENT_PLATFORMS)
            await hass.config_entries.async_forward_entry_setups(entry, AGENT_PLATFORMS)
            runtime.prompt_history.async_drop_removed()
        runtime.warm_up.async_start()

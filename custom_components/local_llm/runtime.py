"""What a loaded entry holds: its engine, and how it is loaded and let go."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
import logging
from pathlib import Path
import shutil
import threading
from typing import TYPE_CHECKING, Any

from homeassistant.config_entries import ConfigEntry, ConfigSubentryDataWithId
from homeassistant.const import CONF_DEVICE, CONF_MODEL, EVENT_HOMEASSISTANT_STOP
from homeassistant.core import Event, HomeAssistant, callback
from local_llm_engine.errors import NotConvertedError

from .const import CONF_DISK_CACHE_GIB, CONF_REPOSITORY, DOMAIN
from .engine_settings import engine_config
from .entry_engine import EntryEngine
from .failures import LOADING_STOPPED, EngineUnavailableError, Failure, load_failure
from .hub.left_models import async_tell_left_models
from .machine.model_check import check_device, engine_class, model_folder
from .machine.torch_check import async_torch_failure
from .machine.torch_install import async_complete
from .machine.torch_issue import async_tell_torch
from .stoppable import async_run_stoppable
from .weights.kept import weights_folder
from .weights.preparation import EngineInPreparation, take_failure

if TYPE_CHECKING:
    from .insight import Insight
    from .prompts.history import PromptHistory
    from .warming.prefetch import Prefetch
    from .warming.warm_up import WarmUp

_LOGGER = logging.getLogger(__name__)

type LocalLlmConfigEntry = ConfigEntry[LocalLlmRuntimeData]


@dataclass(kw_only=True)
class LocalLlmRuntimeData:
    """An entry's engine and its device, what it was loaded with, its prompts' warm-up, and what it did.

    `loaded_with` is the entry's data; `agents` is what the agents that stand now were made from.
    `updating` is held while they are replaced.
    """

    engine: EntryEngine
    engine_device_id: str
    loaded_with: Mapping[str, Any]
    agents: Sequence[ConfigSubentryDataWithId]
    warm_up: WarmUp
    prefetch: Prefetch
    insight: Insight
    prompt_history: PromptHistory
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)


def as_agents(entry: LocalLlmConfigEntry) -> Sequence[ConfigSubentryDataWithId]:
    """Return what an entry's agents are made from as it is now; Home Assistant changes sub-entries in place."""
    return [subentry.as_dict() for subentry in entry.subentries.values()]


def cache_folder(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> Path:
    """Return where an entry's engine keeps prompts on disk: a place that Home Assistant's backups leave out."""
    return Path(hass.config.cache_path(DOMAIN, entry.entry_id))


async def async_remove_cache(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Remove all that an entry's engine, which must be closed, has kept on disk."""
    await hass.async_add_executor_job(_remove_cache, cache_folder(hass, entry))


async def async_load_engine(
    hass: HomeAssistant, entry: LocalLlmConfigEntry
) -> EntryEngine:
    """Load the engine that an entry describes, or what stands in its place while its weights are to be converted first.

    Whoever takes it closes it; where this is cancelled, nothing is left to close.

    Raises:
        EngineUnavailableError: it cannot be loaded.
    """
    await async_complete(hass)
    failure = await async_torch_failure(hass)
    async_tell_torch(hass, entry, failure)
    await async_tell_left_models(hass)
    if failure := failure or take_failure(hass, entry):
        raise EngineUnavailableError(failure)
    return await _async_load(hass, entry)


async def async_close(hass: HomeAssistant, engine: EntryEngine) -> None:
    """Close an engine for good: what is cancelled while it waits for a thread would never come."""
    await asyncio.shield(hass.async_add_executor_job(engine.close))


async def _async_load(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> EntryEngine:
    """Load it on a thread; where Home Assistant stops or nobody waits any more, that ends within seconds."""
    stopped = threading.Event()

    @callback
    def stop(_: Event) -> None:
        stopped.set()

    unlisten = hass.bus.async_listen(EVENT_HOMEASSISTANT_STOP, stop)
    load = partial(
        _load,
        entry.data,
        cache_folder(hass, entry),
        weights_folder(hass, entry.data),
        stopped.is_set,
    )
    try:
        engine = await async_run_stoppable(
            hass, stopped, load, discard=lambda engine: engine.close()
        )
    finally:
        unlisten()
    if stopped.is_set():
        # It came just then; nobody else will close it.
        await async_close(hass, engine)
        raise EngineUnavailableError(Failure(LOADING_STOPPED, ""))
    return engine


def _load(
    data: Mapping[str, Any],
    cache: Path,
    weights: Path,
    is_cancelled: Callable[[], bool],
) -> EntryEngine:
    check_device(data[CONF_DEVICE])
    model = model_folder(data[CONF_MODEL])
    if CONF_REPOSITORY in data and not model.is_dir():
        raise EngineUnavailableError(Failure("model_gone", data[CONF_REPOSITORY]))
    keeps_prompts = bool(data[CONF_DISK_CACHE_GIB])
    if not keeps_prompts:
        _remove_cache(cache)
    try:
        config = engine_config(
            data,
            weights_folder=weights,
            cache_folder=cache if keeps_prompts else None,
        )
        engine = engine_class()
        try:
            return engine.load(
                model, config, is_cancelled=is_cancelled, may_convert=False
            )
        except NotConvertedError:
            return EngineInPreparation(engine.plan(model, config))
    except Exception as err:
        # Whatever a model folder holds, Home Assistant goes on and shows why the model does not.
        raise EngineUnavailableError(load_failure(err)) from err


def _remove_cache(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as err:
        _LOGGER.warning("Could not remove the prompt cache in %s: %s", folder, err)
    # Other entries may have folders beside it.
    with suppress(OSError):
        folder.parent.rmdir()

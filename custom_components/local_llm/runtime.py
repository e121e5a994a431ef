"""What a loaded entry holds: its engine, and how it is loaded and let go."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
import logging
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any

from homeassistant.config_entries import ConfigEntry, ConfigSubentryDataWithId
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import HomeAssistant
from local_llm_engine.config import GIB, EngineConfig

from .const import (
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_PROMPT_CACHE_GIB,
    CONF_REPOSITORY,
    CONF_WEIGHTS,
    DEFAULT_WEIGHTS,
    DOMAIN,
)
from .failures import EngineUnavailableError, Failure, load_failure
from .hub.left_models import async_tell_left_models
from .machine.model_check import check_device, engine_class, model_folder
from .machine.torch_check import async_torch_failure
from .machine.torch_install import async_complete
from .machine.torch_issue import async_tell_torch

if TYPE_CHECKING:
    from local_llm_engine.service import Engine

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

    engine: Engine
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


async def async_load_engine(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> Engine:
    """Load the engine that an entry describes.

    Raises:
        EngineUnavailableError: it cannot be loaded.
    """
    await async_complete(hass)
    failure = await async_torch_failure(hass)
    async_tell_torch(hass, entry, failure)
    await async_tell_left_models(hass)
    if failure:
        raise EngineUnavailableError(failure)
    return await hass.async_add_executor_job(
        _load, entry.data, cache_folder(hass, entry)
    )


def _load(data: Mapping[str, Any], folder: Path) -> Engine:
    check_device(data[CONF_DEVICE])
    model = model_folder(data[CONF_MODEL])
    if CONF_REPOSITORY in data and not model.is_dir():
        raise EngineUnavailableError(Failure("model_gone", data[CONF_REPOSITORY]))
    disk_cache_gib = data[CONF_DISK_CACHE_GIB]
    if not disk_cache_gib:
        _remove_cache(folder)
    try:
        config = EngineConfig(
            device=data[CONF_DEVICE],
            weights=data.get(CONF_WEIGHTS, DEFAULT_WEIGHTS),
            context_length=int(data[CONF_CONTEXT_LENGTH]),
            prompt_cache_bytes=int(data[CONF_PROMPT_CACHE_GIB] * GIB),
            cache_folder=folder if disk_cache_gib else None,
            disk_cache_bytes=int(disk_cache_gib * GIB),
        )
        return engine_class().load(model, config)
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

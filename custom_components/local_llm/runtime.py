"""What a loaded entry holds: its engine, and how it is loaded and let go."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
import logging
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

from homeassistant.config_entries import ConfigEntry, ConfigSubentryDataWithId
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import HomeAssistant
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB, EngineConfig

from .const import (
    BUILTIN_MODEL,
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_PROMPT_CACHE_GIB,
    DOMAIN,
)
from .failures import EngineUnavailableError, Failure, load_failure

if TYPE_CHECKING:
    from local_llm_engine.service import Engine

    from .insight import Insight
    from .prefetch import Prefetch
    from .prompt_history import PromptHistory
    from .warm_up import WarmUp

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


class ModelFacts(NamedTuple):
    """What a model folder says of itself. The context length is in tokens."""

    name: str
    architecture: str
    weights_bytes: int
    context_length: int


def model_folder(model: str) -> Path:
    """Return the folder of a model as the entry names it."""
    return NANO_PATH if model == BUILTIN_MODEL else Path(model)


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
    return await hass.async_add_executor_job(
        _load, entry.data, cache_folder(hass, entry)
    )


async def async_check_model(hass: HomeAssistant, model: str) -> ModelFacts:
    """Check a model without reading its weights.

    Raises:
        EngineUnavailableError: it could not be loaded.
    """
    return await hass.async_add_executor_job(_check, model)


async def async_check_device(hass: HomeAssistant, device: str) -> None:
    """Check that models can run on a device.

    Raises:
        EngineUnavailableError: they cannot.
    """
    await hass.async_add_executor_job(_check_device, device)


def _load(data: Mapping[str, Any], folder: Path) -> Engine:
    _check_device(data[CONF_DEVICE])
    disk_cache_gib = data[CONF_DISK_CACHE_GIB]
    if not disk_cache_gib:
        _remove_cache(folder)
    try:
        config = EngineConfig(
            device=data[CONF_DEVICE],
            context_length=int(data[CONF_CONTEXT_LENGTH]),
            prompt_cache_bytes=int(data[CONF_PROMPT_CACHE_GIB] * GIB),
            cache_folder=folder if disk_cache_gib else None,
            disk_cache_bytes=int(disk_cache_gib * GIB),
        )
        return _engine_class().load(model_folder(data[CONF_MODEL]), config)
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


def _check(model: str) -> ModelFacts:
    try:
        summary = _engine_class().check(model_folder(model))
    except Exception as err:
        raise EngineUnavailableError(load_failure(err)) from err
    return ModelFacts(
        summary.name,
        summary.architecture,
        summary.weights_bytes,
        summary.context_length,
    )


def _check_device(device: str) -> None:
    try:
        import torch  # noqa: PLC0415
    except (ImportError, OSError) as err:
        raise EngineUnavailableError(Failure("torch_missing", str(err))) from err
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineUnavailableError(Failure("cuda_missing", torch.__version__))


def _engine_class() -> type[Engine]:
    """Import the engine where it may take its seconds: torch, which it needs, is missing on some systems."""
    from local_llm_engine.service import Engine  # noqa: PLC0415

    return Engine

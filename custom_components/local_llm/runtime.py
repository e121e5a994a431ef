"""What a loaded entry holds: its engine, and how it is loaded and let go."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import HomeAssistant
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB, EngineConfig

from .const import BUILTIN_MODEL, CONF_CONTEXT_LENGTH, CONF_PROMPT_CACHE_GIB
from .failures import EngineUnavailableError, Failure, load_failure

if TYPE_CHECKING:
    from local_llm_engine.service import Engine

    from .warm_up import WarmUp

type LocalLlmConfigEntry = ConfigEntry[LocalLlmRuntimeData]


@dataclass(kw_only=True)
class LocalLlmRuntimeData:
    """An entry's engine, the entry's data that it was loaded with, and the warm-up of its prompts.

    `updating` is held while the agents are replaced.
    """

    engine: Engine
    loaded_with: Mapping[str, Any]
    warm_up: WarmUp
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModelFacts(NamedTuple):
    """What a model folder says of itself. The context length is in tokens."""

    name: str
    architecture: str
    weights_bytes: int
    context_length: int


def model_folder(model: str) -> Path:
    """Return the folder of a model as the entry names it."""
    return NANO_PATH if model == BUILTIN_MODEL else Path(model)


async def async_load_engine(hass: HomeAssistant, data: Mapping[str, Any]) -> Engine:
    """Load the engine that an entry's data describes.

    Raises:
        EngineUnavailableError: it cannot be loaded.
    """
    return await hass.async_add_executor_job(_load, data)


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


def _load(data: Mapping[str, Any]) -> Engine:
    _check_device(data[CONF_DEVICE])
    try:
        config = EngineConfig(
            device=data[CONF_DEVICE],
            context_length=int(data[CONF_CONTEXT_LENGTH]),
            prompt_cache_bytes=int(data[CONF_PROMPT_CACHE_GIB] * GIB),
        )
        return _engine_class().load(model_folder(data[CONF_MODEL]), config)
    except Exception as err:
        # Whatever a model folder holds, Home Assistant goes on and shows why the model does not.
        raise EngineUnavailableError(load_failure(err)) from err


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

"""What a model and this machine say of themselves before anything is loaded; the one door to the engine's own checks."""

from collections.abc import Mapping
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from homeassistant.core import HomeAssistant
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import Device, EngineConfig

from ..const import BUILTIN_MODEL
from ..failures import EngineUnavailableError, Failure, load_failure
from .fit import Machine

if TYPE_CHECKING:
    from local_llm_engine.service import Engine, EnginePlan


class ModelFacts(NamedTuple):
    """What a model folder says of itself, and what the model would need on each device that is here."""

    name: str
    architecture: str
    context_length: int
    plans: Mapping[str, EnginePlan]


def model_folder(model: str) -> Path:
    """Return the folder of a model as the entry names it."""
    return NANO_PATH if model == BUILTIN_MODEL else Path(model)


async def async_check_model(hass: HomeAssistant, model: str) -> ModelFacts:
    """Check a model without reading its weights.

    Raises:
        EngineUnavailableError: it could not be loaded.
    """
    return await hass.async_add_executor_job(check_model, model)


async def async_machine(hass: HomeAssistant) -> Machine:
    """Ask how much memory this machine has, and its graphics card where there is one."""
    return await hass.async_add_executor_job(_machine)


async def async_check_device(hass: HomeAssistant, device: str) -> None:
    """Check that models can run on a device.

    Raises:
        EngineUnavailableError: they cannot.
    """
    await hass.async_add_executor_job(check_device, device)


def check_model(model: str) -> ModelFacts:
    """Check a model without reading its weights; blocks.

    Raises:
        EngineUnavailableError: it could not be loaded.
    """
    folder = model_folder(model)
    try:
        engine = engine_class()
        summary = engine.check(folder)
        plans: dict[str, EnginePlan] = {
            device: engine.plan(folder, EngineConfig(device=device))
            for device in _devices()
        }
    except Exception as err:
        raise EngineUnavailableError(load_failure(err)) from err
    return ModelFacts(summary.name, summary.architecture, summary.context_length, plans)


def check_device(device: str) -> None:
    """Check that models can run on a device; blocks.

    Raises:
        EngineUnavailableError: they cannot.
    """
    try:
        import torch  # noqa: PLC0415
    except (ImportError, OSError) as err:
        raise EngineUnavailableError(Failure("torch_broken", str(err))) from err
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineUnavailableError(Failure("cuda_missing", torch.__version__))


def engine_class() -> type[Engine]:
    """Import the engine where it may take its seconds: torch, which it needs, is missing on some systems."""
    from local_llm_engine.service import Engine  # noqa: PLC0415

    return Engine


def _machine() -> Machine:
    engine = engine_class()
    memory = {device: engine.memory(device) for device in _devices()}
    return Machine(
        ram=memory["cpu"],
        gpu=memory.get("cuda"),
        num_cores=os.process_cpu_count() or 1,
    )


def _devices() -> tuple[Device, ...]:
    import torch  # noqa: PLC0415

    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)

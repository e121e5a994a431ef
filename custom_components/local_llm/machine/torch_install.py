"""Brings PyTorch into this Home Assistant when somebody asks for it."""

from contextlib import suppress
import importlib
import os
from pathlib import Path
import platform
import sysconfig
from typing import Final

from homeassistant.core import HomeAssistant
from homeassistant.requirements import (
    RequirementsNotFound,
    async_clear_install_history,
    async_process_requirements,
)
from local_llm_engine.config import GIB

from ..const import DOMAIN
from ..failures import EngineUnavailableError, Failure
from .disk_room import free_bytes, require_room
from .torch_check import ENGINE_PARTS, TORCH, missing_parts

# Unpacked, with the libraries for NVIDIA's cards that come along on this kind of machine
_LARGE_BYTES: Final = 7 * GIB
_SMALL_BYTES: Final = 2 * GIB


def needed_bytes() -> int:
    """Return how much of the disk the installation may take.

    uv, which installs, heeds UV_TORCH_BACKEND: a build for the processor alone is small.
    """
    is_large = (
        platform.machine() == "x86_64" and os.environ.get("UV_TORCH_BACKEND") != "cpu"
    )
    return _LARGE_BYTES if is_large else _SMALL_BYTES


def packages_folder() -> Path:
    """Return where packages are installed."""
    return Path(sysconfig.get_path("purelib"))


async def async_complete(hass: HomeAssistant) -> None:
    """Bring what is small beside a PyTorch that is here, say after an update; who cannot do without tells what is missing."""
    missing = await hass.async_add_executor_job(missing_parts)
    if missing and TORCH not in missing:
        with suppress(RequirementsNotFound):
            await async_process_requirements(hass, DOMAIN, missing, is_built_in=False)


async def async_install(hass: HomeAssistant) -> None:
    """Install PyTorch and what the engine needs beside it.

    Raises:
        EngineUnavailableError: that failed.
    """
    await hass.async_add_executor_job(require_room, packages_folder(), needed_bytes())
    # A person who tries again has a reason.
    async_clear_install_history(hass)
    try:
        await async_process_requirements(
            hass, DOMAIN, list(ENGINE_PARTS), is_built_in=False
        )
    except RequirementsNotFound as err:
        failure = await hass.async_add_executor_job(_failure)
        raise EngineUnavailableError(failure) from err
    await hass.async_add_executor_job(importlib.invalidate_caches)


def _failure() -> Failure:
    """Tell a disk that became full from all else that ends an installation."""
    if not free_bytes(packages_folder()):
        return Failure("disk_full", str(packages_folder()))
    system = f"Python {platform.python_version()}, {platform.machine()}"
    return Failure("install_failed", system)

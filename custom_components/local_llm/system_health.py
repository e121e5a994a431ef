"""What Home Assistant's page of system health says of the engines: models, devices, PyTorch and notices."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from homeassistant.components import system_health
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant, callback

from .const import DOMAIN
from .folders import without_folders
from .runtime import LocalLlmConfigEntry

_NONE = "-"


@callback
def async_register(
    hass: HomeAssistant, register: system_health.SystemHealthRegistration
) -> None:
    """Offer what there is to say."""
    register.async_register_info(_async_info)


async def _async_info(hass: HomeAssistant) -> dict[str, Any]:
    entries: list[LocalLlmConfigEntry] = hass.config_entries.async_entries(DOMAIN)
    loaded = [entry for entry in entries if entry.state is ConfigEntryState.LOADED]
    engines = []
    notices = []
    for entry in loaded:
        status = entry.runtime_data.engine.status()
        engines.append(f"{status.model.name} ({status.device}, {status.dtype})")
        notices += [without_folders(hass, entry, notice) for notice in status.notices]
    return {
        "engines_loaded": f"{len(loaded)}/{len(entries)}",
        "engines": ", ".join(engines) or _NONE,
        "torch_version": await hass.async_add_executor_job(_torch_version),
        "notices": "; ".join(notices) or _NONE,
    }


def _torch_version() -> str:
    """Ask without importing torch, which would take seconds and memory."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return _NONE

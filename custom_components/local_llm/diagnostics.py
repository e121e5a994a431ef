"""What a person may attach to a report: settings, counts and times, no prompt, no secret and nobody's words."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from homeassistant.components.diagnostics import REDACTED
from homeassistant.config_entries import ConfigEntryState
from homeassistant.const import CONF_DEVICE, CONF_LLM_HASS_API, CONF_MODEL
from homeassistant.core import HomeAssistant

from .const import CONF_KV_CACHE, CONF_WEIGHTS
from .folders import without_folders
from .runtime import LocalLlmConfigEntry

# The only settings shown that are no numbers and no switches
_SHOWN = frozenset({CONF_DEVICE, CONF_LLM_HASS_API, CONF_WEIGHTS, CONF_KV_CACHE})


async def async_get_config_entry_diagnostics(
    hass: HomeAssistant, entry: LocalLlmConfigEntry
) -> dict[str, Any]:
    """Return the diagnostics of an entry."""
    told: dict[str, Any] = {
        "state": entry.state.value,
        "error": entry.error_reason_translation_key,
        # Where a model lies may tell a person's name; what it is called does not.
        "data": {
            **_settings(entry.data),
            CONF_MODEL: Path(entry.data[CONF_MODEL]).name,
        },
        "options": _settings(entry.options),
        "agents": [
            {"type": subentry.subentry_type, "data": _settings(subentry.data)}
            for subentry in entry.subentries.values()
        ],
    }
    if entry.state is ConfigEntryState.LOADED:
        runtime = entry.runtime_data
        status = runtime.engine.status()
        run = runtime.warm_up.last_run
        told["engine"] = asdict(status) | {
            "notices": [
                without_folders(hass, entry, notice) for notice in status.notices
            ]
        }
        told["prompts"] = [
            {"agent": target.agent_id, **target.speaker._asdict()}
            for target in runtime.warm_up.async_targets()
        ]
        told["last_warm_up"] = None if run is None else asdict(run)
        told["hit_rate_percent"] = runtime.insight.hit_rate
    return told


def _settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Show what can hold neither words nor secrets; the rest only says that it is there."""
    return {
        key: value
        if key in _SHOWN or value is None or isinstance(value, bool | int | float)
        else REDACTED
        for key, value in data.items()
    }

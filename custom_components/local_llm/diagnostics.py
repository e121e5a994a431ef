"""What a person may attach to a report: settings, counts and times, no prompt and nobody's words."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from homeassistant.components.diagnostics import async_redact_data
from homeassistant.config_entries import ConfigEntryState
from homeassistant.const import CONF_MODEL, CONF_PROMPT
from homeassistant.core import HomeAssistant

from .runtime import LocalLlmConfigEntry


async def async_get_config_entry_diagnostics(
    hass: HomeAssistant, entry: LocalLlmConfigEntry
) -> dict[str, Any]:
    """Return the diagnostics of an entry."""
    told: dict[str, Any] = {
        # Where a model lies may tell a person's name; what it is called does not.
        "data": {**entry.data, CONF_MODEL: Path(entry.data[CONF_MODEL]).name},
        "options": dict(entry.options),
        "agents": [
            {
                "type": subentry.subentry_type,
                "data": async_redact_data(subentry.data, {CONF_PROMPT}),
            }
            for subentry in entry.subentries.values()
        ],
    }
    if entry.state is ConfigEntryState.LOADED:
        runtime = entry.runtime_data
        status = runtime.engine.status()
        told["engine"] = asdict(status) | {
            "notices": [
                notice.replace(hass.config.config_dir, "/config")
                for notice in status.notices
            ]
        }
        told["prompts"] = [
            {"agent": target.agent_id, **target.speaker._asdict()}
            for target in runtime.warm_up.async_targets()
        ]
    return told

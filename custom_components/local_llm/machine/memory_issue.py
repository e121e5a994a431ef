"""The repair issue of an engine that ran out of memory: raised with what to lower, gone once it answers again."""

from pathlib import Path
from typing import TYPE_CHECKING

from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import issue_registry as ir

from ..const import (
    CONF_CONTEXT_LENGTH,
    CONF_PROMPT_CACHE_GIB,
    DEFAULT_CONTEXT_LENGTH,
    DEFAULT_PROMPT_CACHE_GIB,
    DOMAIN,
)

if TYPE_CHECKING:
    from ..runtime import LocalLlmConfigEntry

_OUT_OF_MEMORY = "out_of_memory"


@callback
def async_raise_memory_issue(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Say that an entry's engine needs more memory than there is, and what of its settings would help."""
    ir.async_create_issue(
        hass,
        DOMAIN,
        _issue_id(entry),
        is_fixable=False,
        severity=ir.IssueSeverity.ERROR,
        translation_key=_OUT_OF_MEMORY,
        translation_placeholders={
            "title": entry.title,
            "model": Path(entry.data[CONF_MODEL]).name,
            "device": entry.data[CONF_DEVICE],
            "context_length": str(
                entry.data.get(CONF_CONTEXT_LENGTH, DEFAULT_CONTEXT_LENGTH)
            ),
            "prompt_cache_gib": str(
                entry.data.get(CONF_PROMPT_CACHE_GIB, DEFAULT_PROMPT_CACHE_GIB)
            ),
        },
    )


@callback
def async_clear_memory_issue(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Take the issue back, if there is one."""
    ir.async_delete_issue(hass, DOMAIN, _issue_id(entry))


def _issue_id(entry: LocalLlmConfigEntry) -> str:
    return f"{_OUT_OF_MEMORY}_{entry.entry_id}"

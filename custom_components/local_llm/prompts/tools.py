"""The one list of tools that every device is offered, in one fixed order."""

from collections.abc import Callable, Iterable
from typing import Any, override

import probatio

from homeassistant.core import HomeAssistant
from homeassistant.helpers import intent, llm
from local_llm_engine.types import ToolSpec

_TIMER_INTENTS = frozenset(
    {
        intent.INTENT_START_TIMER,
        intent.INTENT_CANCEL_TIMER,
        intent.INTENT_INCREASE_TIMER,
        intent.INTENT_DECREASE_TIMER,
        intent.INTENT_PAUSE_TIMER,
        intent.INTENT_UNPAUSE_TIMER,
        intent.INTENT_TIMER_STATUS,
    }
)
_INTENT_DOMAIN = "intent"


class AbsentTool(llm.Tool):
    """A tool that other devices of the house have; the asking device is told that it has not."""

    def __init__(self, tool: llm.Tool) -> None:
        """Look exactly like the tool in the prompt."""
        self.name = tool.name
        self.title = tool.title
        self.description = tool.description
        self.parameters = tool.parameters
        self.annotations = tool.annotations
        self.integration = tool.integration

    @override
    async def async_call(
        self,
        hass: HomeAssistant,
        tool_input: llm.ToolInput,
        llm_context: llm.LLMContext,
    ) -> llm.ToolResult:
        """Answer in words that the model can pass on."""
        text = (
            f"The device that the user speaks to cannot use {self.name}. "
            "Do not call it again; tell the user that this device cannot do it."
        )
        return llm.ToolResult(
            data={"error": "NotAvailableOnThisDevice", "error_text": text}, error=True
        )


def timer_tools(hass: HomeAssistant) -> list[llm.Tool]:
    """Return the tools that Home Assistant gives to devices with timers, whether or not there is one now."""
    return [
        llm.IntentTool(
            f"{_INTENT_DOMAIN}__{handler.intent_type}",
            handler,
            integration=_INTENT_DOMAIN,
        )
        for handler in intent.async_get(hass)
        if handler.intent_type in _TIMER_INTENTS
    ]


def one_list(
    present: Iterable[llm.Tool], elsewhere: Iterable[llm.Tool]
) -> list[llm.Tool]:
    """Join the tools of the asking device with those of others, sorted by name.

    Home Assistant lists intents in the order in which they were registered, which a restart changes.
    """
    tools = {tool.name: tool for tool in present}
    for tool in elsewhere:
        tools.setdefault(tool.name, AbsentTool(tool))
    return sorted(tools.values(), key=lambda tool: tool.name)


def as_spec(tool: llm.Tool, serializer: Callable[[Any], Any] | None) -> ToolSpec:
    """Return how the engine is told of a tool."""
    parameters = probatio.to_openapi(
        tool.parameters, custom_serializer=serializer, openapi_version="3.1.0"
    )
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        parameters=_in_order(_joined(parameters)),
    )


def _joined(schema: Any) -> Any:
    """Write in one what Home Assistant, since 2026.11, writes in parts that all hold: neither models nor we read those."""
    if isinstance(schema, list):
        return [_joined(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    whole = {key: _joined(value) for key, value in schema.items()}
    joined = {key: value for key, value in whole.items() if key != "allOf"}
    for part in whole.get("allOf", ()):
        for key, value in part.items():
            known = joined.setdefault(key, value)
            if key == "type" and (known, value) == ("number", "integer"):
                joined[key] = value
            elif known != value and (known, value) != ("integer", "number"):
                return whole
    return joined


def _in_order(schema: Any) -> Any:
    """Sort what a JSON schema may list in any order; some of it comes from sets, which a restart reorders."""
    if isinstance(schema, dict):
        return {
            key: sorted(value)
            if key in ("required", "enum") and _all_text(value)
            else _in_order(value)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_in_order(item) for item in schema]
    return schema


def _all_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)

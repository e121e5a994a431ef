"""Makes Home Assistant's tool input of a model's tool call: what the tools are, what the house's names are.

Knows nothing of how a call is mended.
"""

from dataclasses import replace
import logging
from typing import Final

import probatio

from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import llm, selector
from local_llm_engine.types import ToolCall, ToolSpec

from ..prompts.house_api import HouseInstance
from ..prompts.tools import AbsentTool, as_spec
from .house_names import async_house_names
from .mending import ENTITY, OfferedTool, mended
from .naming import AREA, FLOOR, Naming
from .targets import NAME, TARGETS, UnclearCallError

_LOGGER = logging.getLogger(__name__)

_LIVE_CONTEXT: Final = "homeassistant__GetLiveContext"
_TODO: Final = "todo"
_SELECTED: Final = (
    (selector.AreaSelector, AREA),
    (selector.FloorSelector, FLOOR),
    (selector.EntitySelector, ENTITY),
)


class ToolCalls:
    """The calls of one conversation's tools."""

    def __init__(self, hass: HomeAssistant, instance: llm.APIInstance | None) -> None:
        """Take the tools that the conversation has; without an API it has none."""
        self._hass = hass
        self._instance = instance
        tools = instance.tools if instance else []
        specs: dict[str, ToolSpec] = {}
        if isinstance(instance, HouseInstance):
            specs = {spec.name: spec for spec in instance.specs}
        self._tools = {tool.name: tool for tool in tools}
        serializer = instance.custom_serializer if instance else None
        self._offered = tuple(
            _offered(tool, specs.get(tool.name) or as_spec(tool, serializer))
            for tool in tools
        )

    @callback
    def async_input(self, call: ToolCall) -> llm.ToolInput:
        """Return the input of the tool that a call means.

        The history shows the model this call, not its own: it is the one that the result belongs to, it is
        written the same way each time that it is read again, and a model repeats what it sees.

        Raises:
            UnclearCallError: the call cannot be carried out; the message is for the model.
        """
        if self._instance is None:
            raise UnclearCallError("There are no tools. Answer without any.")
        names = async_house_names(self._hass, self._instance.llm_context)
        meant = mended(call, self._offered, Naming(names))
        if (meant.name, meant.arguments) != (call.name, call.arguments):
            _LOGGER.debug("Mended %s as %s", call, meant)
        tool = self._tools[meant.name]
        if isinstance(tool, llm.IntentTool):
            _check(tool, meant)
        return llm.ToolInput(meant.name, dict(meant.arguments), id=meant.id)


def _check(tool: llm.IntentTool, call: ToolCall) -> None:
    """Say which argument is wrong: the intent itself tells only that one is."""
    try:
        tool.parameters(dict(call.arguments))
    except probatio.Invalid as err:
        raise UnclearCallError(f"{tool.name} cannot take this: {err}.") from err


def _offered(tool: llm.Tool, spec: ToolSpec) -> OfferedTool:
    offered = OfferedTool(
        spec=spec,
        targets=frozenset(),
        places={},
        is_read_only=tool.annotations.read_only,
        is_absent=isinstance(tool, AbsentTool),
    )
    names = offered.properties.keys()
    if tool.name == _LIVE_CONTEXT or (
        isinstance(tool, llm.IntentTool) and {NAME, AREA, FLOOR} <= names
    ):
        return replace(offered, targets=frozenset(names & set(TARGETS)))
    if isinstance(tool, llm.IntentTool):
        is_list = tool.integration == _TODO
        return replace(
            offered,
            targets=frozenset({NAME} & names if is_list else ()),
            places={AREA: AREA} if AREA in names else {},
        )
    return replace(offered, places=_places(tool))


def _places(tool: llm.Tool) -> dict[str, str]:
    """Find the fields of a script that name something in the house."""
    schema = tool.parameters.schema
    return {
        str(field): kind
        for field, wanted in (schema.items() if isinstance(schema, dict) else ())
        for chosen, kind in _SELECTED
        if isinstance(wanted, chosen)
    }

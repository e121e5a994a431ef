"""Mends the tool calls that small models write where their meaning is plain, and refuses the others in words; pure.

A mended call never does more than what was written: what cannot be read is refused rather than left out
where it could have narrowed the target.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
import re
from typing import Any, Final

from homeassistant.const import Platform
from local_llm_engine.types import ToolCall, ToolSpec

from .argument_names import renamed, unwrapped, with_durations
from .fitting import UnfitValueError, fitted, is_blank
from .kinds import DOMAIN, KnownKinds
from .naming import AREA, FLOOR, Naming
from .spelling import like, the_one
from .targets import NAME, TARGETS, Aim, UnclearCallError

ENTITY: Final = "entity"

_TURN_ON: Final = "intent__HassTurnOn"
_TEMPERATURE: Final = "temperature"
_DEGREES = re.compile(
    r"(.*\d)\s*(?:°|degrees)?\s*([CF])(?:elsius|ahrenheit)?", re.IGNORECASE
)
# Between a domain and what is to be done: "light.turn_on", "light__HassTurnOn".
_PREFIX = re.compile(r"(\.|__)")
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as far as its calls can be mended.

    `targets` are those of TARGETS that say what the tool acts on; `places` are other arguments that name an
    area, a floor or an entity. Only what `is_read_only` may act on more than was written. The calls of a tool
    that `is_absent` are not looked at.
    """

    spec: ToolSpec
    targets: frozenset[str]
    places: Mapping[str, str]
    is_read_only: bool
    is_absent: bool

    @property
    def properties(self) -> Mapping[str, Any]:
        """The JSON schemas of the arguments, by name."""
        found = self.spec.parameters.get("properties", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def required(self) -> Sequence[str]:
        """The arguments that must be there."""
        return list(self.spec.parameters.get("required", ()))

    @property
    def takes_anything(self) -> bool:
        """Whether the tool may take arguments that its schema does not name."""
        return self.spec.parameters.get("additionalProperties") is not False

    @property
    def understood(self) -> Sequence[str]:
        """The arguments that say what to act on, also where the tool itself lacks some of them."""
        return TARGETS if {NAME, AREA} <= self.targets else ()


def mended(call: ToolCall, tools: Sequence[OfferedTool], naming: Naming) -> ToolCall:
    """Return the call as its tool understands it.

    Raises:
        UnclearCallError: there is more than one thing that the call can mean, or none.
    """
    tool, domain = _meant_tool(call.name, tools)
    if tool.is_absent:
        return replace(call, name=tool.spec.name)
    arguments = dict(call.arguments)
    if not tool.takes_anything:
        arguments = unwrapped(arguments, tool.properties)
    arguments = _without_blanks(arguments, tool)
    if domain and DOMAIN in tool.targets:
        arguments.setdefault(DOMAIN, domain)
    arguments = renamed(arguments, tool.properties, tool.required, tool.understood)
    arguments = with_durations(arguments, tool.properties)
    tool = _better_tool(tool, arguments, tools)
    arguments = _without_unknown(arguments, tool, naming)
    arguments = _aimed(arguments, tool, naming)
    _require_all(arguments, tool)
    arguments = {
        key: _placed(key, value, tool, naming)
        for key, value in _fitted(arguments, tool, naming).items()
    }
    return replace(call, name=tool.spec.name, arguments=arguments)


def _without_blanks(arguments: Mapping[str, Any], tool: OfferedTool) -> dict[str, Any]:
    return {
        key: value
        for key, value in arguments.items()
        if not is_blank(value) or key in tool.required
    }


def _meant_tool(
    name: str, tools: Sequence[OfferedTool]
) -> tuple[OfferedTool, str | None]:
    """Find the tool that a name means, and the domain that the name says: "light.turn_on"."""
    known: dict[str, OfferedTool] = {}
    ambiguous: set[str] = set()
    for tool in tools:
        base = tool.spec.name.partition("__")[2] or tool.spec.name
        for spelling in {base, base.removeprefix("Hass")}:
            if spelling in known:
                ambiguous.add(spelling)
            known[spelling] = tool
    for spelling in ambiguous:
        del known[spelling]
    known |= {tool.spec.name: tool for tool in tools}
    if exact := known.get(name) or the_one(name, known):
        return exact, None
    prefix, separator, rest = (
        _PREFIX.split(name, 1) if _PREFIX.search(name) else ("", "", name)
    )
    if separator and (meant := the_one(rest, known)):
        return meant, the_one(prefix, {domain: str(domain) for domain in Platform})
    near = [known[spelling].spec.name for spelling in like(name, known)]
    hint = f"Do you mean {', '.join(dict.fromkeys(near))}?" if near else ""
    raise UnclearCallError(
        f"There is no tool {name[:_LONGEST_SHOWN]!r}. {hint}".strip()
    )


def _better_tool(
    tool: OfferedTool, arguments: Mapping[str, Any], tools: Iterable[OfferedTool]
) -> OfferedTool:
    """Return the tool that can do what a call to turn something on asks for besides, such as a brightness."""
    others = [other for other in tools if {NAME, AREA, FLOOR} <= other.targets]
    wanted = {
        key
        for key in arguments.keys() - tool.properties.keys()
        if any(key in other.properties for other in others)
    }
    if tool.spec.name != _TURN_ON or not wanted:
        return tool
    able = [
        other
        for other in others
        if wanted <= other.properties.keys()
        and arguments.keys() - wanted <= {*other.properties, *other.understood}
    ]
    if len(able) == 1:
        return able[0]
    names = " or ".join(other.spec.name for other in able)
    raise UnclearCallError(
        f"{tool.spec.name} has no {', '.join(sorted(wanted))}.{f' Use {names}.' if names else ''}"
    )


def _without_unknown(
    arguments: Mapping[str, Any], tool: OfferedTool, naming: Naming
) -> dict[str, Any]:
    """Leave out what the tool does not know, unless it could have said what to act on."""
    if tool.takes_anything:
        return dict(arguments)
    known = {*tool.properties, *tool.understood}
    for key in arguments.keys() - known:
        if not _is_harmless(arguments[key], arguments, tool, naming):
            raise UnclearCallError(
                f"{tool.spec.name} has no argument {key!r}. It has {', '.join(tool.properties)}."
            )
    return {key: value for key, value in arguments.items() if key in known}


def _is_harmless(
    value: Any, arguments: Mapping[str, Any], tool: OfferedTool, naming: Naming
) -> bool:
    """Tell whether something unknown says nothing of what to act on, or that is plain without it."""
    if tool.is_read_only:
        return True
    if not tool.targets:
        # What needs nothing, such as the end of a timer, goes by this alone.
        needs = tool.required or tool.spec.parameters.get("anyOf")
        return bool(needs) or not {NAME, AREA} & tool.properties.keys()
    if not tool.understood:
        return NAME in arguments or isinstance(value, int | float)
    name = arguments.get(NAME)
    if isinstance(name, str) and naming.names_thing(name) is not None:
        return True
    return isinstance(value, int | float) and bool(
        {NAME, AREA, FLOOR} & arguments.keys()
    )


def _aimed(
    arguments: Mapping[str, Any], tool: OfferedTool, naming: Naming
) -> dict[str, Any]:
    """Find what the call acts on; what sets a value acts on nothing without a target."""
    if not tool.targets:
        return dict(arguments)
    target = {
        key: value
        if key not in (NAME, AREA, FLOOR)
        else _fit(key, value, {"type": "string"})
        for key, value in arguments.items()
        if key in TARGETS
    }
    kinds = KnownKinds.of(tool.spec.name, tool.properties)
    taken = Aim(target, tool.targets, kinds, naming).taken()
    others = {key: value for key, value in arguments.items() if key not in TARGETS}
    lost = taken.keys() - tool.targets
    if lost and not tool.is_read_only:
        raise UnclearCallError(f"{tool.spec.name} has no {', '.join(sorted(lost))}.")
    if others and not taken and DOMAIN in tool.targets:
        if naming.house.own_area is None:
            raise UnclearCallError("Say what to act on: give a name or an area.")
        taken = {AREA: naming.house.own_area}
    return {
        key: value
        for key, value in {**arguments, **taken}.items()
        if key in taken.keys() - lost or key in others
    }


def _fitted(
    arguments: Mapping[str, Any], tool: OfferedTool, naming: Naming
) -> dict[str, Any]:
    unit = naming.house.temperature_unit
    return {
        key: _fit(
            key,
            _in_degrees(value, unit) if key == _TEMPERATURE else value,
            tool.properties.get(key),
        )
        for key, value in arguments.items()
    }


def _fit(key: str, value: Any, schema: object) -> Any:
    try:
        return fitted(key, value, schema)
    except UnfitValueError as err:
        shown = str(value)[:_LONGEST_SHOWN]
        hint = " Call the tool once for each." if isinstance(value, list) else ""
        raise UnclearCallError(f"{key} must be {err}, not {shown!r}.{hint}") from err


def _in_degrees(value: Any, unit: str) -> Any:
    """Take the unit from a temperature, which must be the house's."""
    found = _DEGREES.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return value
    if not unit.endswith(found[2].upper()):
        raise UnclearCallError(f"temperature must be in {unit}, not {value!r}.")
    return found[1]


def _placed(key: str, value: Any, tool: OfferedTool, naming: Naming) -> Any:
    """Find the area, floor or entity that an argument names, or those that it lists."""
    kind = tool.places.get(key)
    if kind is None:
        return value
    if isinstance(value, list):
        return [_placed(key, item, tool, naming) for item in value]
    if kind == ENTITY:
        found = naming.called(str(value)) or naming.spelled(str(value))
        place = found[0].entity_id if len(found) == 1 else None
        near = like(
            str(value), [name for thing in naming.house.things for name in thing.names]
        )
    else:
        place = naming.place(str(value), kind)
        near = like(str(value), naming.place_names(kind))
    if place is None:
        hint = f" Do you mean {', '.join(near)}?" if near else ""
        raise UnclearCallError(f"{key}: there is no {kind} {value!r}.{hint}")
    return place


def _require_all(arguments: Mapping[str, Any], tool: OfferedTool) -> None:
    missing = [key for key in tool.required if is_blank(arguments.get(key))]
    if missing:
        raise UnclearCallError(f"{tool.spec.name} needs {', '.join(missing)}.")
    choices = [
        option.get("required", []) for option in tool.spec.parameters.get("anyOf", ())
    ]
    if choices and not any(set(choice) <= arguments.keys() for choice in choices):
        names = " or ".join(", ".join(choice) for choice in choices)
        raise UnclearCallError(f"{tool.spec.name} needs {names}.")

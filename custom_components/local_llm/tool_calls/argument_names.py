"""Finds which arguments of a tool are meant by the names that models write for them; pure.

Knows nothing of what the arguments are about.
"""

from collections.abc import Collection, Mapping, Sequence
import re
from typing import Any, Final

from .fitting import UnfitValueError, fitted, is_blank
from .spelling import folded, the_one

# What models write for an argument that has another name.
_OTHER_NAMES: Final = {
    "name": ("entity", "entity id", "entity name", "device", "device name", "target"),
    "area": ("room", "room name", "location", "zone", "area id", "area name"),
    "floor": ("floor id", "floor name", "storey", "level name"),
    "domain": ("type", "entity type", "device type"),
    "brightness": ("brightness pct", "brightness percent", "brightness percentage"),
    "color": ("colour", "color name"),
    "volume_level": ("volume",),
}
# What begins like this says what is not meant.
_EXCLUDING: Final = ("except", "exclu", "without")
_DURATIONS: Final = ("duration", "time", "length", "timer")
_UNITS: Final = {
    "hours": ("h", "hr", "hrs", "hour", "hours"),
    "minutes": ("m", "min", "mins", "minute", "minutes"),
    "seconds": ("s", "sec", "secs", "second", "seconds"),
}
_AMOUNT = re.compile(r"(\d{1,9})\s*([a-z]+)(?:\s*(?:,|and)?\s*)")
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d\d)")


def unwrapped(
    arguments: Mapping[str, Any], properties: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments without an object around some of them: {"target": {"entity_id": ...}}.

    What is left blank takes the place of nothing.
    """
    found: dict[str, Any] = {}
    for key, value in arguments.items():
        if (
            isinstance(value, dict)
            and the_one(key, _as_names(properties)) is None
            and not folded(key).startswith(_EXCLUDING)
        ):
            for inner, item in value.items():
                if is_blank(found.get(inner)):
                    found[inner] = item
        elif key not in found or not is_blank(value):
            found[key] = value
    return found


def renamed(
    arguments: Mapping[str, Any],
    properties: Mapping[str, Any],
    required: Sequence[str],
    understood: Collection[str],
) -> dict[str, Any]:
    """Return the arguments under the tool's own names, as far as these are plain; the order stays.

    `understood` are names that have their meaning although the tool has no such arguments.
    """
    names = _as_names(properties)
    others = {
        other: name
        for name, spellings in _OTHER_NAMES.items()
        if name in properties
        for other in spellings
    }
    meant = {
        key: key if key in names else the_one(key, names) or the_one(key, others)
        for key in arguments
    }
    missing = [name for name in required if name not in meant.values()]
    unknown = [
        key for key, name in meant.items() if name is None and key not in understood
    ]
    if len(missing) == len(unknown) == 1 and _fits(
        missing[0], arguments[unknown[0]], properties
    ):
        meant[unknown[0]] = missing[0]
    found: dict[str, Any] = {}
    for key, value in arguments.items():
        name = meant[key] or key
        # The tool's own name goes before others for the same, and what comes second keeps its name.
        is_taken = name in found or (name != key and name in arguments)
        found[key if is_taken else name] = value
    return found


def with_durations(
    arguments: Mapping[str, Any], properties: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments with hours, minutes and seconds in the place of a duration in words."""
    found = dict(arguments)
    if not _UNITS.keys() <= properties.keys():
        return found
    for key in arguments.keys() - properties.keys():
        if folded(key) in _DURATIONS and (parts := _duration(str(arguments[key]))):
            del found[key]
            found |= parts
    return found


def _as_names(properties: Mapping[str, Any]) -> dict[str, str]:
    return {name: name for name in properties}


def _fits(name: str, value: Any, properties: Mapping[str, Any]) -> bool:
    try:
        fitted(name, value, properties.get(name))
    except UnfitValueError:
        return False
    return True


def _duration(text: str) -> dict[str, int]:
    """Read "1 hour and 5 minutes" or "0:05:00"; nothing where it is neither."""
    text = text.strip().lower()
    if clock := _CLOCK.fullmatch(text):
        return {
            unit: int(part)
            for unit, part in zip(_UNITS, clock.groups("0"), strict=True)
            if int(part)
        }
    parts: dict[str, int] = {}
    while text and (amount := _AMOUNT.match(text)):
        unit = next(
            (unit for unit, words in _UNITS.items() if amount[2] in words), None
        )
        if unit is None:
            return {}
        parts[unit] = int(amount[1])
        text = text[amount.end() :]
    return {} if text else parts

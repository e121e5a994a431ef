"""Turns the structure that a task asks for into a JSON schema that the engine can hold an answer to.

Knows nothing of the engine. What a schema cannot say, the structure itself judges once the answer is there.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import probatio

# Formats that Home Assistant's selectors name, by what they accept.
_PATTERNS: Final[Mapping[str, str]] = {
    "entity_id": r"^[a-z0-9](_?[a-z0-9]){0,59}\.[a-z0-9](_?[a-z0-9]){0,119}$",
    "time": r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$",
    "date-time": (
        r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
        r" ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$"
    ),
    "ISO 3166-1 alpha-2": r"^[A-Z]{2}$",
    "RFC 5646": r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$",
}
# Formats that mean the same to the engine.
_KNOWN_FORMATS: Final = frozenset({"date", "email", "ipv4", "ipv6", "uri", "uuid"})
_COLOR: Final = "RGB"
_BYTE: Final = {"type": "integer", "minimum": 0, "maximum": 255}


def as_answer_schema(
    structure: probatio.Schema, serializer: Callable[[Any], Any] | None
) -> dict[str, Any]:
    """Return the JSON schema of the data that a task asks for."""
    schema = probatio.to_openapi(
        structure, custom_serializer=serializer, openapi_version="3.1.0"
    )
    return _held(schema)


def _held(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema without the words that no grammar can hold, and with what they come to instead."""
    held = {key: _copied(key, value) for key, value in schema.items()}
    name = held.pop("format", None)
    if name in _PATTERNS:
        held["pattern"] = _PATTERNS[name]
    elif name in _KNOWN_FORMATS:
        held["format"] = name
    elif name == _COLOR:
        held["items"] = _BYTE
    if "properties" in held:
        # Home Assistant takes no other fields, though it says so of the outermost only.
        held.setdefault("additionalProperties", False)
    if held.pop("uniqueItems", False) and (choices := held["items"].get("enum")):
        # Each choice once is at most all of them.
        held["maxItems"] = len(choices)
    return held


def _copied(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: _held(option) for name, option in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, Mapping):
        return _held(value)
    if key in ("anyOf", "oneOf", "allOf"):
        return [_held(option) for option in value]
    return value

"""Judges values by JSON schemas, in the tests' own words: as much of the language as the tests speak."""

from collections.abc import Callable, Mapping
import re
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_ANY: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, types: any(
        _is(value, name) for name in ([types] if isinstance(types, str) else types)
    ),
    "enum": lambda value, choices: value in choices,
    "const": lambda value, only: bool(value == only),
    "anyOf": lambda value, options: any(satisfies(value, option) for option in options),
    "description": lambda value, text: True,
}
_BY_TYPE: Mapping[str, Mapping[str, Callable[[Any, Any], bool]]] = {
    "number": {
        "minimum": lambda value, least: value >= least,
        "maximum": lambda value, most: value <= most,
    },
    "string": {
        "minLength": lambda value, least: len(value) >= least,
        "maxLength": lambda value, most: len(value) <= most,
        "pattern": lambda value, pattern: re.search(pattern, value) is not None,
    },
    "array": {
        "minItems": lambda value, least: len(value) >= least,
        "maxItems": lambda value, most: len(value) <= most,
        "items": lambda value, schema: all(satisfies(item, schema) for item in value),
    },
    "object": {
        "required": lambda value, names: set(names) <= set(value),
        "properties": lambda value, schemas: all(
            satisfies(value[name], schema)
            for name, schema in schemas.items()
            if name in value
        ),
    },
}


def satisfies(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value is what a schema asks for; an object with properties has no others."""
    has_others = isinstance(value, dict) and not set(value) <= set(
        schema.get("properties", value)
    )
    return not has_others and all(
        _holds(keyword, value, asked)
        for keyword, asked in schema.items()
        if keyword != "additionalProperties"
    )


def _holds(keyword: str, value: Any, asked: Any) -> bool:
    """Whether a value is what one keyword of a schema asks for."""
    if keyword in _ANY:
        return _ANY[keyword](value, asked)
    [(kind, judge)] = [
        (kind, judges[keyword])
        for kind, judges in _BY_TYPE.items()
        if keyword in judges
    ]
    return not _is(value, kind) or judge(value, asked)


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (
        name == "boolean" or not isinstance(value, bool)
    )

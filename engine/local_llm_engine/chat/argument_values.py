"""Turns the text of one argument into the value that the tool's JSON schema asks for.

Knows nothing of how a call is written around it.
"""

import ast
from collections.abc import Mapping
import json
import math
from typing import Any

# What is nested deeper than any tool's argument could not be shown again in the history.
DEEPEST_VALUE = 64
# Longer values are taken as JSON or not at all: Python's parser is slow on long input.
_LONGEST_LITERAL = 20_000

_TYPE_OF_VALUE: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
_JSON_TYPES = {"null", *(name for _, name in _TYPE_OF_VALUE)}
_WORDS = {"true": True, "false": False, "null": None, "none": None}


class _NoValueError(ValueError):
    """The text is no literal at all; unlike None, which is a value."""


def argument_value(text: str, schema: object) -> Any:
    """Read the text of an argument as its schema says.

    A string stays as it was written. Without a type in the schema the text is a string too, unless it is a
    JSON object or array. Other types are JSON, or what models write for it: Python literals and capitalised
    words. A text that is of no allowed type stays a string: whoever carries the call out knows best whether
    "40%" can be meant, and what to tell the model.
    """
    try:
        types = allowed_types(schema)
    except RecursionError:
        types = set()
    if not types:
        return _json_container(text)
    if types == {"string"}:
        return text
    try:
        # Where a string is allowed, only exact JSON means something else.
        value = _json_value(text) if "string" in types else _literal_value(text)
    except _NoValueError:
        return text
    for allowed in types:
        if allowed != "string" and _fits(value, allowed):
            return (
                int(value)
                if allowed == "integer"
                and isinstance(value, float)
                and "number" not in types
                else value
            )
    return text


def plain_value(value: Any, depth: int = DEEPEST_VALUE) -> Any:
    """Copy a literal as JSON data.

    Raises:
        ValueError: it holds something that JSON does not know (a set, bytes, infinity, a key that is no
            string), or is nested deeper than `depth`.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple() if depth:
            return [plain_value(item, depth - 1) for item in value]
        case dict() if depth and all(isinstance(key, str) for key in value):
            return {key: plain_value(item, depth - 1) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} is not JSON, or nested too deeply")


def allowed_types(schema: object) -> set[str]:
    """Find the JSON types that a schema allows; none where it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    for combination in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(combination), list):
            found = [allowed_types(option) for option in options]
            return set.union(*found) if found and all(found) else set()
    if isinstance(conditions := schema.get("allOf"), list):
        return next(filter(None, map(allowed_types, conditions)), set())
    match schema.get("type"):
        case str() as name:
            types = {name}
        case [*names]:
            types = {name for name in names if isinstance(name, str)}
        case _ if isinstance(choices := schema.get("enum"), list):
            types = {_type_name(choice) for choice in choices}
        case _:
            types = set()
    types &= _JSON_TYPES
    return types | {"null"} if types and schema.get("nullable") is True else types


def _type_name(value: object) -> str:
    return next(
        (name for kind, name in _TYPE_OF_VALUE if isinstance(value, kind)), "null"
    )


def _fits(value: object, name: str) -> bool:
    found = _type_name(value)
    if name == "number":
        return found in ("integer", "number")
    if name == "integer":
        return found == "integer" or (isinstance(value, float) and value.is_integer())
    return found == name


def _json_value(text: str) -> Any:
    try:
        return plain_value(json.loads(text))
    except (ValueError, RecursionError) as err:
        raise _NoValueError from err


def _json_container(text: str) -> Any:
    """Read the object or array that the text is; else keep the text."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return _json_value(text)
    except _NoValueError:
        return text


def _literal_value(text: str) -> Any:
    """Read JSON, else a word for true, false or nothing, else a Python literal."""
    text = text.strip()
    try:
        return _json_value(text)
    except _NoValueError:
        if text.casefold() in _WORDS:
            return _WORDS[text.casefold()]
        # "+10" is no way to write 10: it says by how much something is to change.
        if len(text) > _LONGEST_LITERAL or text.startswith("+"):
            raise
    try:
        return plain_value(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as err:
        raise _NoValueError from err

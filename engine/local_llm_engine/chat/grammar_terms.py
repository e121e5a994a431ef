"""The small pieces of a grammar as llguidance reads it: literals, free text, JSON by a schema.

Knows nothing of tools, of calls or of tokens.
"""

from collections.abc import Callable, Iterable, Mapping
import json
from typing import Any

from local_llm_engine.errors import shown

type Respell = Callable[[str], str]

# Beyond these lie numbers that JSON readers round or turn into infinity, and digits without end.
_LARGEST_INTEGER = 2**53
_LARGEST_NUMBER = 1e15

# Deeper schemas are nobody's, and readers of them call themselves at every step.
_DEEPEST_SCHEMA = 40

_JSON_OPTIONS = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}
_SCHEMA_KEYS = ("items", "additionalProperties")
_SCHEMA_LIST_KEYS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMA_MAP_KEYS = ("properties", "patternProperties", "$defs", "definitions")
_REFERS_KEYS = ("$ref", "anyOf", "oneOf", "allOf", "enum", "const")


class GrammarError(ValueError):
    """Something that no grammar can hold; the message says what."""


def literal(text: str) -> str:
    """Write exactly this text."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\x7f")


def text_without(tags: Iterable[str]) -> str:
    """Write a regular expression, without its slashes, for any text in which no `tag` follows a "<"."""
    return f"[^<]*(<{_tail_without(tuple(tags))})*"


def json_value(
    schema: Mapping[str, Any],
    respell: Respell,
    definitions: Mapping[str, Any] | None = None,
    *,
    lenient: bool,
) -> str:
    """Write any JSON value of a schema, in one line, with one space or none after a comma or colon.

    Args:
        schema: the JSON schema.
        respell: how the model's tokenizer writes a text; see `Tokenizer.respell`.
        definitions: `$defs` and `definitions` that references in the schema may mean.
        lenient: whether to pass over what the library cannot hold, where that is possible.

    Raises:
        GrammarError: it is no schema, or too deep.
    """
    held = {**(definitions or {}), **_held(schema, respell, 0)}
    held["x-guidance"] = {**_JSON_OPTIONS, "lenient": lenient}
    try:
        return f"%json {json.dumps(held, ensure_ascii=False)}"
    except (TypeError, ValueError, RecursionError) as err:
        raise GrammarError(f"the schema is not plain JSON data: {err}") from err


def _held(schema: object, respell: Respell, depth: int) -> dict[str, Any]:
    """Copy a schema with numbers bounded and names as the tokenizer writes them."""
    if schema is True:
        schema = {}
    if not isinstance(schema, Mapping):
        raise GrammarError(f"a schema must be an object, not {shown(schema)}")
    if depth > _DEEPEST_SCHEMA:
        raise GrammarError("the schema is nested too deeply")
    held = {**schema, **_bounds(schema)}
    for key in _SCHEMA_KEYS:
        if isinstance(held.get(key), Mapping):
            held[key] = _held(held[key], respell, depth + 1)
    for key in _SCHEMA_LIST_KEYS:
        if isinstance(held.get(key), list | tuple):
            held[key] = [_held(option, respell, depth + 1) for option in held[key]]
    for key in _SCHEMA_MAP_KEYS:
        if isinstance(held.get(key), Mapping):
            is_named = key == "properties"
            held[key] = {
                respell(name) if is_named else name: _held(option, respell, depth + 1)
                for name, option in held[key].items()
            }
    for key in ("required", "enum", "const"):
        if key in held:
            held[key] = _spelled(held[key], respell)
    return held


def _spelled(value: object, respell: Respell) -> object:
    match value:
        case str():
            return respell(value)
        case Mapping():
            return {
                respell(str(key)): _spelled(item, respell)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_spelled(item, respell) for item in value]
    return value


def _bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add bounds to a schema of numbers that has none, or one."""
    types = schema.get("type")
    types = types if isinstance(types, list | tuple) else [types]
    if any(key in schema for key in _REFERS_KEYS) or not (
        {"integer", "number", None} & set(types)
    ):
        return {}
    largest = _LARGEST_NUMBER if set(types) - {"integer"} else _LARGEST_INTEGER
    bounds: dict[str, Any] = {}
    if "minimum" not in schema and "exclusiveMinimum" not in schema:
        bounds["minimum"] = -largest
    if "maximum" not in schema and "exclusiveMaximum" not in schema:
        bounds["maximum"] = largest
    return bounds


def _tail_without(tags: tuple[str, ...]) -> str:
    """Write what may stand between two "<", or behind the last: nothing that begins with one of `tags`."""
    rests: dict[str, list[str]] = {}
    for tag in tags:
        rests.setdefault(tag[0], []).append(tag[1:])
    options = [f"[^<{''.join(map(_in_class, rests))}][^<]*"]
    options += [
        f"{_in_class(first)}{_tail_without(tuple(following))}"
        for first, following in rests.items()
        if all(following)
    ]
    return f"({'|'.join(options)})?"


def _in_class(character: str) -> str:
    return f"\\{character}" if character in r"/\]^-" else character

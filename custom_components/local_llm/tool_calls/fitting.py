"""Gives a tool call's argument the type that its JSON schema asks for, where the meaning is plain; pure.

Knows nothing of what the arguments are about.
"""

import ast
from collections.abc import Mapping, Sequence
import json
import re
from typing import Any

from .spelling import folded, the_one

# Longer texts are taken as they are: Python's parser is slow on long input.
_LONGEST_LITERAL = 2_000
_MOST_CHOICES = 8
_MOST_DIGITS = 20
_WORDS = {
    **dict.fromkeys(("true", "on", "yes"), True),
    **dict.fromkeys(("false", "off", "no"), False),
}
_BLANK_WORDS = frozenset({"", "null", "none", "undefined"})
_NUMBER = re.compile(r"(-?\d+(?:[.,]\d+)?)\s*(.*)", re.DOTALL)
# What may stand behind a number that is one of these anyway.
_UNITS = frozenset({"", "%", "percent", "°", "degrees", "k", "kelvin"})


class UnfitValueError(ValueError):
    """A value that cannot be what the schema asks for; the message says what would be right."""


def is_blank(value: object) -> bool:
    """Tell whether a value is what models write for an argument that they leave out."""
    if isinstance(value, str):
        return value.strip().casefold() in _BLANK_WORDS
    if isinstance(value, list | dict):
        return all(map(is_blank, value.values() if isinstance(value, dict) else value))
    return value is None


def fitted(name: str, value: Any, schema: object) -> Any:
    """Return the value as the schema asks for it.

    Args:
        name: the argument's, which models write again as a unit: minutes = "5 minutes".
        value: as the model wrote it, plain JSON data.
        schema: of the argument; without a type everything fits.

    Raises:
        UnfitValueError: the value cannot be meant for this schema.
    """
    if not isinstance(schema, Mapping):
        return value
    options = _options(schema)
    if not options:
        return _fitted_alone(name, value, schema)
    expected: list[str] = []
    # What fits as it is goes first: a word may be a list of one as well.
    for is_exact in (True, False):
        for option in options:
            try:
                fit = fitted(name, value, option)
            except UnfitValueError as err:
                expected.append(str(err))
            else:
                if not is_exact or (fit == value and type(fit) is type(value)):
                    return fit
    raise UnfitValueError(" or ".join(dict.fromkeys(expected)))


def _options(schema: Mapping[str, Any]) -> Sequence[Any]:
    """Return the schemas of which one must hold; none where there is no choice."""
    for combination in ("anyOf", "oneOf"):
        if options := schema.get(combination):
            return list(options)
    if isinstance(types := schema.get("type"), list):
        return [{**schema, "type": kind} for kind in types]
    return ()


def _fitted_alone(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "array":
            return _list(name, value, schema)
        case "object":
            return _object(value)
        case "null" if not is_blank(value):
            raise UnfitValueError("nothing")
        case "null":
            return None
    value = _single(value)
    match schema.get("type"):
        case "boolean":
            return _boolean(value)
        case "integer" | "number":
            return _number(name, value, schema)
        case "string":
            value = _text(value)
    return _choice(value, schema.get("enum"))


def _single(value: Any) -> Any:
    """Take a value out of a list or an object that holds nothing else."""
    while isinstance(value, list | dict) and len(value) == 1:
        (value,) = value.values() if isinstance(value, dict) else value
    return value


def _list(name: str, value: Any, schema: Mapping[str, Any]) -> list[Any]:
    if isinstance(value, str) and value.strip().startswith(("[", "(")):
        value = _literal(value)
    items = list(value) if isinstance(value, list | tuple) else [value]
    return [
        fitted(name, item, schema.get("items")) for item in items if not is_blank(item)
    ]


def _object(value: Any) -> Any:
    if isinstance(value, str):
        value = _literal(value)
    if not isinstance(value, dict):
        raise UnfitValueError("an object")
    return value


def _boolean(value: Any) -> bool:
    word = _WORDS.get(value.strip().casefold()) if isinstance(value, str) else None
    if word is not None:
        return word
    if value in (0, 1):
        return bool(value)
    raise UnfitValueError("true or false")


def _text(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        raise UnfitValueError("one text")
    return value


def _number(name: str, value: Any, schema: Mapping[str, Any]) -> float:
    low, high = schema.get("minimum"), schema.get("maximum")
    whole = schema["type"] == "integer"
    expected = "a whole number" if whole else "a number"
    if low is not None:
        expected += f" from {low:g}" + ("" if high is None else f" to {high:g}")
    number = _read_number(name, value, signed=low is None or low < 0)
    if (
        number is None
        or (whole and isinstance(number, float) and not number.is_integer())
        or abs(number) >= 10**_MOST_DIGITS
        or (low is not None and number < low)
        or (high is not None and number > high)
    ):
        raise UnfitValueError(expected)
    return int(number) if whole else number


def _read_number(name: str, value: Any, *, signed: bool) -> float | None:
    """Read a number, with its unit if need be. A plus sign means a change, which is no value where none is signed."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    text = value.strip()
    found = _NUMBER.fullmatch(text.removeprefix("+") if signed else text)
    if found is None or not _is_unit(found[2].strip().casefold(), name):
        return None
    digits = found[1].replace(",", ".")
    # No tool takes more digits, and Python refuses to read thousands.
    if len(digits) > _MOST_DIGITS:
        return None
    return float(digits) if "." in digits else int(digits)


def _is_unit(word: str, name: str) -> bool:
    key = folded(name)
    return word in _UNITS or folded(word) in (key, key.removesuffix("s"))


def _choice(value: Any, choices: object) -> Any:
    if not isinstance(choices, list) or value in choices:
        return value
    meant = the_one(str(value), {str(choice): choice for choice in choices})
    if meant is not None:
        return meant
    shown = ", ".join(map(str, choices[:_MOST_CHOICES]))
    more = ", …" if len(choices) > _MOST_CHOICES else ""
    raise UnfitValueError(f"one of {shown}{more}")


def _literal(text: str) -> Any:
    """Read JSON, else a Python literal, which models write for it; else keep the text."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text) if len(text) <= _LONGEST_LITERAL else text
        except ValueError, SyntaxError, TypeError, MemoryError, RecursionError:
            continue
    return text

"""Reads a tool call in the Hermes form: one JSON object with "name" and "arguments".

Knows nothing of streams.
"""

import ast
from collections.abc import Mapping
import json
from typing import Any

from .argument_values import plain_value
from .tool_call_syntax import ParsedCall, ToolCallSyntaxError


def parse_json_calls(body: str) -> list[ParsedCall]:
    """Read the call, or the list of calls, between <tool_call> and </tool_call>.

    Raises:
        ToolCallSyntaxError: the text is not JSON, or not a call.
    """
    value = _value(body)
    return [_call(entry) for entry in (value if isinstance(value, list) else [value])]


def is_inside_string(text: str) -> bool:
    """Whether JSON text ends within a string, so that what follows is data."""
    inside = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = inside
        elif character == '"':
            inside = not inside
    return inside


def _value(body: str) -> Any:
    """Read JSON, else a Python literal, which some models write for it."""
    try:
        return plain_value(json.loads(body))
    except RecursionError:
        raise ToolCallSyntaxError("it is nested too deeply") from None
    except ValueError as err:
        reason = str(err)
    try:
        return plain_value(ast.literal_eval(body.strip()))
    except ValueError, SyntaxError, TypeError, MemoryError, RecursionError:
        raise ToolCallSyntaxError(f"it is not valid JSON: {reason}") from None


def _call(entry: Any) -> ParsedCall:
    if not isinstance(entry, Mapping):
        raise ToolCallSyntaxError("it is not a JSON object")
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ToolCallSyntaxError('it has no "name"')
    arguments = entry.get("arguments", entry.get("parameters"))
    if isinstance(arguments, str):
        arguments = _object_in_text(arguments, name)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ToolCallSyntaxError('its "arguments" are not a JSON object', name)
    return ParsedCall(name.strip(), arguments)


def _object_in_text(text: str, name: str) -> Any:
    """Arguments that were written as JSON within a string; an empty one means none."""
    if not text.strip():
        return {}
    try:
        return plain_value(json.loads(text))
    except ValueError, RecursionError:
        raise ToolCallSyntaxError(
            'its "arguments" are not a JSON object', name
        ) from None

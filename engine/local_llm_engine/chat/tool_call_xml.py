"""Reads a tool call in the XML-like form: <function=NAME>, then <parameter=KEY> with its value, any number.

    <function=HassLightSet>
    <parameter=name>
    Desk
    </parameter>
    </function>

It is no XML: nothing is escaped, and models garble the closing tags. Knows nothing of streams.
"""

import re
from typing import Any, NamedTuple

from .argument_values import argument_value
from .tool_call_syntax import ParsedCall, Schemas, ToolCallSyntaxError

_SPACE = re.compile(r"\s*")
_FUNCTION = re.compile(r"<function=\s*[\"']?([^\s\"'<>=]+)[\"']?\s*>")
_PARAMETER = re.compile(r"<parameter=\s*[\"']?([^\"'<>\n]+?)[\"']?\s*>")
_FUNCTION_END = re.compile(r"</function[^<>\n]*>")
_PARAMETER_END = re.compile(r"</param[^<>\n]*>")
# A value ends at a closing tag, garbled or not, that is followed by what can follow it; else where the
# closing tag was forgotten: before the next parameter or before the end of the call.
_NEXT_TAG = r"<parameter=|<function=|</param|</function|\Z"
_VALUE_END = re.compile(
    rf"\n?</param[^<>\n]*>(?=\s*(?:{_NEXT_TAG}))"
    r"|\n(?=[ \t]*<parameter=[^<>\n]+>\s)"
    r"|\n?(?=</function[^<>\n]*>\s*(?:<function=|\Z))"
)
PARAMETER_NAME = re.compile(r"[\w.:-]+")


class _Tag(NamedTuple):
    value: str
    end: int


def parse_xml_calls(
    body: str, schemas: Schemas, *, is_closed: bool
) -> list[ParsedCall]:
    """Read every call in the text between <tool_call> and </tool_call>.

    Args:
        body: the text.
        schemas: each tool's JSON schemas of its parameters.
        is_closed: whether </tool_call> was seen; then a forgotten </function> at the end is no matter.

    Raises:
        ToolCallSyntaxError: a call is malformed or cut short.
    """
    calls = []
    position = _skip_space(body, 0)
    while position < len(body):
        call, position = _parse_call(body, position, schemas, is_closed=is_closed)
        calls.append(call)
    return calls


def _parse_call(
    body: str, position: int, schemas: Schemas, *, is_closed: bool
) -> tuple[ParsedCall, int]:
    function = _tag(_FUNCTION, body, position, name=None)
    name = function.value
    arguments: dict[str, Any] = {}
    position = _skip_space(body, function.end)
    while not (end := _FUNCTION_END.match(body, position)):
        if position == len(body):
            if is_closed:
                return ParsedCall(name, arguments), position
            raise ToolCallSyntaxError("it was cut short", name)
        if stray := _PARAMETER_END.match(body, position):
            position = _skip_space(body, stray.end())
            continue
        key, value, position = _parse_parameter(body, position, name)
        if key in arguments:
            raise ToolCallSyntaxError(f"the parameter {key!r} is given twice", name)
        arguments[key] = argument_value(value, schemas.of(name, key))
    return ParsedCall(name, arguments), _skip_space(body, end.end())


def _parse_parameter(body: str, position: int, name: str) -> tuple[str, str, int]:
    """Read one parameter: key, text of the value without one newline on each side, position after it."""
    parameter = _tag(_PARAMETER, body, position, name=name)
    if not PARAMETER_NAME.fullmatch(parameter.value):
        raise ToolCallSyntaxError(
            f"{parameter.value!r} is no name of a parameter", name
        )
    end = _VALUE_END.search(body, parameter.end)
    if end is None:
        raise ToolCallSyntaxError(
            f"the value of the parameter {parameter.value!r} is not closed", name
        )
    value = body[parameter.end : end.start()].removeprefix("\n")
    return parameter.value, value, _skip_space(body, end.end())


def _tag(
    pattern: re.Pattern[str], body: str, position: int, *, name: str | None
) -> _Tag:
    if found := pattern.match(body, position):
        return _Tag(found[1], found.end())
    line = body[position:].split("\n", 1)[0]
    raise ToolCallSyntaxError(f"{line[:60]!r} is not a tag that belongs there", name)


def _skip_space(body: str, position: int) -> int:
    found = _SPACE.match(body, position)
    return found.end() if found else position

"""Writes the grammar of tool calls: known tools, their parameters in any order, values by their schemas.

One grammar for each of the written forms that are read by tool_call_xml and tool_call_json; what it lets
through, they read without an error. Knows nothing of tokens, nor of what stands around a call.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
import json
from typing import Any

from local_llm_engine.errors import shown
from local_llm_engine.types import ToolSpec

from .argument_values import allowed_types
from .grammar_terms import GrammarError, Respell, json_value, literal, text_without
from .tool_call_xml import PARAMETER_NAME

# What ends a value early, or is read as the next parameter; a value's text must not hold it.
_TAGS = ("/param", "/function", "parameter=", "function=")
_TEXT = text_without(_TAGS)
_ANY_PARAMETERS = text_without(("/function",))
_VALUE_END = r"\n<\/parameter>\n"

# A rule's memory of the parameters that were written, in bits.
_MOST_PARAMETERS = 64


class CallForm(StrEnum):
    """How a model writes a call."""

    XML = "xml"
    JSON = "json"


def call_rules(
    form: CallForm, tools: Sequence[ToolSpec], respell: Respell, loose: frozenset[str]
) -> Iterator[str]:
    """Yield the rules for one call; the first is named as the form is.

    Args:
        form: how the call is written.
        tools: those that may be called.
        respell: how the model's tokenizer writes a text.
        loose: names of tools whose arguments may be anything.

    Raises:
        GrammarError: a tool's parameters cannot be held; `loose` would help.
    """
    write, write_loose = _WRITERS[form]
    names = [f"{form}_{index}" for index in range(len(tools))]
    choice = " | ".join(names)
    if form is CallForm.XML:
        yield rf'{form}: "\n<function=" ({choice})'
    else:
        yield rf'{form}: "\n{{\"name\": \"" ({choice}) "}}\n"'
    for name, tool in zip(names, tools, strict=True):
        is_loose = tool.name in loose or tool.parameters.get("additionalProperties")
        yield from (write_loose if is_loose else write)(name, tool, respell)


def _xml_tool(rule: str, tool: ToolSpec, respell: Respell) -> Iterator[str]:
    head = _xml_head(tool, respell)
    parameters = _Parameters(tool)
    if not parameters.schemas:
        yield rf'{rule}: {head} "</function>\n"'
        return
    yield f"{rule}: {head} {rule}_rest::0x0"
    yield f"{rule}_rest::_: {parameters.end('</function>\n')}"
    for bit, (name, schema) in enumerate(parameters.schemas.items()):
        if not PARAMETER_NAME.fullmatch(name):
            raise GrammarError(f"{name!r} is no name of a parameter")
        tag = literal(f"<parameter={respell(name)}>\n")
        value = _xml_value(schema, parameters.definitions, respell)
        yield f"  | {tag} ({value}) {rule}_rest::set_bit({bit}) %if bit_clear({bit})"


def _loose_xml_tool(rule: str, tool: ToolSpec, respell: Respell) -> Iterator[str]:
    yield rf"{rule}: {_xml_head(tool, respell)} /{_ANY_PARAMETERS}<\/function>\n/"


def _xml_head(tool: ToolSpec, respell: Respell) -> str:
    return literal(f"{respell(tool.name)}>\n")


def _xml_value(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], respell: Respell
) -> str:
    """Write the text of a parameter's value, with the closing tag; strings stand there as they are.

    What a string's schema says of its length and pattern is not held.
    """
    types = allowed_types(schema)
    choices = _string_choices(schema)
    others = types - {"string"}
    options = []
    if "string" in types or not types:
        if choices is not None:
            options += [literal(f"{respell(text)}\n</parameter>\n") for text in choices]
        elif others & {"array", "object"}:
            # Words and JSON must part at the first character.
            options.append(rf"/([^<\[{{\s]{_TEXT})?{_VALUE_END}/")
        else:
            options.append(f"/{_TEXT}{_VALUE_END}/")
        if choices is None:
            # Free text has their texts in it.
            others &= {"array", "object"}
    if others:
        held = {"type": sorted(others), "allOf": [schema]} if options else schema
        value = json_value(held, respell, definitions, lenient=True)
        options.append(f'{value} "\\n</parameter>\\n"')
    return " | ".join(options)


def _json_tool(rule: str, tool: ToolSpec, respell: Respell) -> Iterator[str]:
    head = _json_head(tool, respell)
    parameters = _Parameters(tool)
    if not parameters.schemas:
        yield f'{rule}: {head} "{{}}"'
        return
    members = []
    for bit, (name, schema) in enumerate(parameters.schemas.items()):
        key = literal(json.dumps(respell(name), ensure_ascii=False))
        value = json_value(schema, respell, parameters.definitions, lenient=True)
        yield f"{rule}_{bit}: {key} /: ?/ {value}"
        members.append(f"{rule}_{bit} {rule}_rest::set_bit({bit})")
    yield f'{rule}: {head} "{{" {rule}_first::0x0'
    yield f"{rule}_first::_: {parameters.end('}')}"
    yield from (f"  | {member}" for member in members)
    yield f"{rule}_rest::_: {parameters.end('}')}"
    for bit, member in enumerate(members):
        yield f"  | /, ?/ {member} %if bit_clear({bit})"


def _loose_json_tool(rule: str, tool: ToolSpec, respell: Respell) -> Iterator[str]:
    anything = json_value({"type": "object"}, respell, lenient=True)
    yield f"{rule}: {_json_head(tool, respell)} {anything}"


def _json_head(tool: ToolSpec, respell: Respell) -> str:
    quoted = json.dumps(respell(tool.name), ensure_ascii=False)
    return literal(f'{quoted[1:]}, "arguments": ')


_WRITERS = {
    CallForm.XML: (_xml_tool, _loose_xml_tool),
    CallForm.JSON: (_json_tool, _loose_json_tool),
}


class _Parameters:
    """What one tool's JSON schema says of its parameters."""

    def __init__(self, tool: ToolSpec) -> None:
        schema = tool.parameters
        properties = schema.get("properties") or {}
        if not isinstance(properties, Mapping):
            raise GrammarError(f"properties must be an object, not {shown(properties)}")
        self._required = tuple(schema.get("required") or ())
        self._alternatives = [
            option.get("required", ()) if isinstance(option, Mapping) else ()
            for option in schema.get("anyOf") or schema.get("oneOf") or ()
        ]
        self.schemas: dict[str, Mapping[str, Any]] = {
            name: option if isinstance(option, Mapping) else {}
            for name, option in (
                *properties.items(),
                *((name, {}) for name in self._required if name not in properties),
            )
        }
        self.definitions = {
            key: schema[key] for key in ("$defs", "definitions") if key in schema
        }
        if len(self.schemas) > _MOST_PARAMETERS:
            raise GrammarError(f"it has more than {_MOST_PARAMETERS} parameters")

    def end(self, text: str) -> str:
        """Write how the arguments end, once all that is required is there."""
        conditions = [self._are_set(self._required)] if self._required else []
        if self._alternatives and all(self._alternatives):
            conditions.append(
                _fold("or", [self._are_set(names) for names in self._alternatives])
            )
        condition = f" %if {_fold('and', conditions)}" if conditions else ""
        return f"{literal(text)}{condition}"

    def _are_set(self, names: Sequence[str]) -> str:
        known = list(self.schemas)
        return _fold(
            "and", [f"bit_set({known.index(name)})" for name in names if name in known]
        )


def _fold(operator: str, conditions: Sequence[str]) -> str:
    """Join conditions with an operator that takes two."""
    first, *rest = conditions or ["true"]
    return f"{operator}({first}, {_fold(operator, rest)})" if rest else first


def _string_choices(schema: object) -> list[str] | None:
    """List the strings that a schema allows; None where it allows any."""
    if not isinstance(schema, Mapping):
        return None
    for combination in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(combination), list):
            strings = [
                option
                for option in options
                if "string" in (allowed_types(option) or {"string"})
            ]
            found = [_string_choices(option) for option in strings]
            return (
                None
                if any(choices is None for choices in found)
                else [text for choices in found if choices for text in choices]
            )
    if isinstance(conditions := schema.get("allOf"), list):
        return next(filter(None, map(_string_choices, conditions)), None)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(choices, list):
        return None
    texts = [choice for choice in choices if isinstance(choice, str)]
    for text in texts:
        if any(f"<{tag}" in text for tag in _TAGS):
            raise GrammarError(f"the choice {text!r} would be read as a tag")
    return texts

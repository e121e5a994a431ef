"""Calls in the Hermes form, one JSON object each."""

from typing import Any

import pytest

from local_llm_engine.chat.output_parser import OutputParser
from local_llm_engine.chat.tool_call_syntax import Schemas

from .answers import gather, parse, spelled
from .calls import Form, both_forms


@both_forms
@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "HassTurnOn", "arguments": {"name": "Fan"}}', {"name": "Fan"}),
        ('{"name": "HassTurnOn"}', {}),
        ('{"name": "HassTurnOn", "arguments": null}', {}),
        ('{"name": "HassTurnOn", "arguments": ""}', {}),
        ('{"name": "HassTurnOn", "arguments": "{\\"on\\": true}"}', {"on": True}),
        ('{"name": "HassTurnOn", "parameters": {"name": "Fan"}}', {"name": "Fan"}),
        ('{"name": "HassTurnOn", "arguments": {"name": "a}b"}}', {"name": "a}b"}),
        ('{"name": "HassTurnOn", "arguments": {"name": "\\"{"}}', {"name": '"{'}),
        ("{'name': 'HassTurnOn', 'arguments': {'on': True}}", {"on": True}),
    ],
    ids=[
        "plain",
        "missing",
        "null",
        "empty",
        "as text",
        "parameters",
        "brace",
        "quote",
        "python",
    ],
)
def test_hermes_form(form: Form, body: str, arguments: dict[str, Any]) -> None:
    outcome = parse(form(f"<tool_call>\n{body}\n</tool_call>\nDone"))
    assert outcome.calls == (("HassTurnOn", arguments),)
    assert outcome.content == "Done"


def test_a_json_value_keeps_a_spelled_closing_tag() -> None:
    call = '<tool_call>{"name": "A", "arguments": {"text": "</tool_call>"}}</tool_call>'
    assert parse(spelled(call)).calls == (("A", {"text": "</tool_call>"}),)


@pytest.mark.parametrize(
    "body",
    ["{" * 100_000, "[" * 100_000, '{"name": "A", "arguments": ' + "[" * 100_000],
    ids=["objects", "arrays", "within a call"],
)
def test_deep_nesting_is_malformed(body: str) -> None:
    parser = OutputParser(Schemas(()), thinking=False, control_texts=("<tool_call>",))
    deltas = [
        *parser.feed_control("<tool_call>"),
        *parser.feed_text(body),
        *parser.finish(),
    ]
    assert len(gather(deltas).invalid) == 1

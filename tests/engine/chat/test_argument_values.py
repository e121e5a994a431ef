"""The text of an argument becomes the value that the tool's schema asks for."""

from typing import Any

import pytest

from local_llm_engine.chat.argument_values import DEEPEST_VALUE, argument_value

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
ARRAY = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object"}
OPTIONAL_STRING = {"anyOf": [{"type": "string"}, {"type": "null"}]}
COUNT_OR_WORD = {"type": ["integer", "string"]}


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("40", STRING, "40"),
        ('"quoted"', STRING, '"quoted"'),
        ("  - milk\n", STRING, "  - milk\n"),
        ("", STRING, ""),
        ("null", STRING, "null"),
        ("{'a': 1}", STRING, "{'a': 1}"),
        ("40", INTEGER, 40),
        (" 40\n", INTEGER, 40),
        ("40.0", INTEGER, 40),
        ("-3", INTEGER, -3),
        ("40", NUMBER, 40),
        ("21.5", NUMBER, 21.5),
        ("1e3", NUMBER, 1000.0),
        ("true", BOOLEAN, True),
        ("TRUE", BOOLEAN, True),
        ("False", BOOLEAN, False),
        ("null", {"type": "null"}, None),
        ("None", {"type": "null"}, None),
        ("none", {"type": "boolean", "nullable": True}, None),
        ('["light"]', ARRAY, ["light"]),
        ("['light', 'fan']", ARRAY, ["light", "fan"]),
        ("('light',)", ARRAY, ["light"]),
        (
            '[{"light":"Desk","on":false,"dim":null}]',
            {"type": "array"},
            [{"light": "Desk", "on": False, "dim": None}],
        ),
        (
            "{'room': 'Loft', 'on': True, 'dim': None}",
            OBJECT,
            {"room": "Loft", "on": True, "dim": None},
        ),
        ('{"room": {"name": "Büro"}}', OBJECT, {"room": {"name": "Büro"}}),
        ("null", OPTIONAL_STRING, None),
        ("None", OPTIONAL_STRING, "None"),
        ("Fan", OPTIONAL_STRING, "Fan"),
        ("4", OPTIONAL_STRING, "4"),
        ("4", COUNT_OR_WORD, 4),
        ("four", COUNT_OR_WORD, "four"),
        ("4.5", COUNT_OR_WORD, "4.5"),
        ("2", {"enum": [1, 2]}, 2),
        ("low", {"enum": ["low", "high"]}, "low"),
        ("7", {"allOf": [{"type": "integer"}, {"minimum": 1}]}, 7),
        ("7", {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, 7),
    ],
)
def test_value(text: str, schema: dict[str, Any], expected: Any) -> None:
    value = argument_value(text, schema)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        True,
        {"description": "what"},
        {"type": "anything"},
        {"anyOf": [{}, STRING]},
    ],
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fan", "Fan"),
        ("40", "40"),
        ("true", "true"),
        ('{"a": 1}', {"a": 1}),
        (
            '[{"light":"Desk","on":false,"dim":null}]',
            [{"light": "Desk", "on": False, "dim": None}],
        ),
        ("{'a','b'}", "{'a','b'}"),
        ("{broken", "{broken"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["word", "number", "boolean", "object", "array", "set", "broken", "deep"],
)
def test_value_without_a_type(text: str, expected: Any, schema: object) -> None:
    assert argument_value(text, schema) == expected


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("maybe", BOOLEAN),
        ("1", BOOLEAN),
        ("40%", INTEGER),
        ("+40", INTEGER),
        ("40.5", INTEGER),
        ("true", INTEGER),
        ("1" * 5000, INTEGER),
        ("NaN", NUMBER),
        ("1e999", NUMBER),
        ("light", ARRAY),
        ("{'a','b'}", ARRAY),
        ("{'a','b'}", OBJECT),
        ("{1: 2}", OBJECT),
        ("[b'x']", ARRAY),
        ("[" * 100_000, ARRAY),
        ("[" * 10_000, ARRAY),
        ("-" * 10_000 + "1", INTEGER),
        ("__import__('os')", OBJECT),
        ("", INTEGER),
        ("four", {"type": ["integer", "boolean"]}),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_a_text_of_another_type_stays_text(text: str, schema: dict[str, Any]) -> None:
    assert argument_value(text, schema) == text


@pytest.mark.parametrize("depth", [1200, 20_000])
def test_a_schema_that_is_too_deep_has_no_type(depth: int) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"anyOf": [schema]}
    assert argument_value("40", schema) == "40"


def test_a_value_is_no_deeper_than_can_be_shown_again() -> None:
    for depth in (DEEPEST_VALUE - 1, DEEPEST_VALUE, DEEPEST_VALUE + 1, 900):
        text = "[" * depth + "]" * depth
        value = argument_value(text, {"type": "array"})
        assert (value == text) is (depth > DEEPEST_VALUE)

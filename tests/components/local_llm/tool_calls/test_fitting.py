"""An argument gets the type that its schema asks for, or a message says what would be right."""

from typing import Any

import pytest

from custom_components.local_llm.tool_calls.fitting import (
    UnfitValueError,
    fitted,
    is_blank,
)

STRING = {"type": "string"}
PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}
COUNT = {"type": "integer", "minimum": 0}
STEP = {"type": "integer", "minimum": -100, "maximum": 100}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
WORDS = {"type": "array", "items": STRING}
OBJECT = {"type": "object"}
FORECAST = {"type": "string", "enum": ["daily", "hourly"]}
DOMAIN = {"anyOf": [STRING, WORDS]}
STEP_OR_WORD = {"anyOf": [{"type": "string", "enum": ["up", "down"]}, STEP]}


@pytest.fixture(autouse=True)
def _use_custom_integrations() -> None:
    """Do without Home Assistant: these are plain functions."""


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("Lamp", STRING, "Lamp"),
        (["Lamp"], STRING, "Lamp"),
        ({"value": "Lamp"}, STRING, "Lamp"),
        (5, STRING, "5"),
        (True, STRING, "true"),
        ("40", PERCENT, 40),
        (" 40 % ", PERCENT, 40),
        ("40 percent", PERCENT, 40),
        (40.0, PERCENT, 40),
        ([40], PERCENT, 40),
        ("40,0", PERCENT, 40),
        ("5 count", COUNT, 5),
        ("5 Counts", COUNT, 5),
        ("+10", STEP, 10),
        ("-10", STEP, -10),
        ("21,5", NUMBER, 21.5),
        ("21.5°", NUMBER, 21.5),
        (21, NUMBER, 21),
        ("on", BOOLEAN, True),
        ("False", BOOLEAN, False),
        ("NO", BOOLEAN, False),
        (1, BOOLEAN, True),
        (True, BOOLEAN, True),
        ("light", WORDS, ["light"]),
        ('["light", "fan"]', WORDS, ["light", "fan"]),
        ("('light',)", WORDS, ["light"]),
        ("[light]", WORDS, ["[light]"]),
        (["light", None, ""], WORDS, ["light"]),
        ({"domain": "light"}, WORDS, ["light"]),
        ('{"a": 1}', OBJECT, {"a": 1}),
        ({"a": 1}, OBJECT, {"a": 1}),
        ("Hourly", FORECAST, "hourly"),
        ("hourly ", FORECAST, "hourly"),
        ("light", DOMAIN, "light"),
        (["light"], DOMAIN, ["light"]),
        (["light", "fan"], DOMAIN, ["light", "fan"]),
        ("Up", STEP_OR_WORD, "up"),
        ("+5", STEP_OR_WORD, 5),
        ("none", {"type": ["null", "integer"]}, None),
        ("7", {"type": ["null", "integer"]}, 7),
        ("7", {}, "7"),
        ("7", None, "7"),
    ],
)
def test_fits(value: Any, schema: Any, expected: Any) -> None:
    fit = fitted("counts", value, schema)
    assert fit == expected
    assert type(fit) is type(expected)


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (["A", "B"], STRING, "one text"),
        ({"a": 1, "b": 2}, STRING, "one text"),
        ("bright", PERCENT, "a whole number from 0 to 100"),
        (101, PERCENT, "a whole number from 0 to 100"),
        (10**400, PERCENT, "a whole number from 0 to 100"),
        ("9" * 5000, PERCENT, "a whole number from 0 to 100"),
        (10**400, NUMBER, "a number"),
        ("9" * 400 + ".5", NUMBER, "a number"),
        (-1, COUNT, "a whole number from 0"),
        (0.5, PERCENT, "a whole number from 0 to 100"),
        ("+10", PERCENT, "a whole number from 0 to 100"),
        ("5 minutes", COUNT, "a whole number from 0"),
        (True, PERCENT, "a whole number from 0 to 100"),
        ([1, 2], PERCENT, "a whole number from 0 to 100"),
        ("warm", NUMBER, "a number"),
        ("maybe", BOOLEAN, "true or false"),
        (["on", "off"], BOOLEAN, "true or false"),
        ("text", OBJECT, "an object"),
        ("{" * 5000, OBJECT, "an object"),
        ("weekly", FORECAST, "one of daily, hourly"),
        ("z", {"enum": list("abcdefghij")}, "one of a, b, c, d, e, f, g, h, …"),
        ("left", STEP_OR_WORD, "one of up, down or a whole number from -100 to 100"),
        ("x", {"type": ["null", "integer"]}, "nothing or a whole number"),
    ],
)
def test_says_what_would_fit(value: Any, schema: Any, expected: str) -> None:
    with pytest.raises(UnfitValueError) as raised:
        fitted("counts", value, schema)
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    "value", [None, "", "  ", "null", "None", "undefined", [], {}, [None, ""]]
)
def test_blank(value: Any) -> None:
    assert is_blank(value)


@pytest.mark.parametrize("value", [0, False, "0", "unknown", [0]])
def test_not_blank(value: Any) -> None:
    assert not is_blank(value)

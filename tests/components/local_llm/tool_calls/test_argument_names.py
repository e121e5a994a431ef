"""Arguments are known by the names that models give them."""

from typing import Any

import pytest

from custom_components.local_llm.tool_calls.argument_names import (
    renamed,
    unwrapped,
    with_durations,
)

ANYTHING: dict[str, Any] = {}
TURN_ON = dict.fromkeys(("name", "area", "floor", "domain", "device_class"), ANYTHING)
LIGHT_SET = {**TURN_ON, "brightness": {"type": "integer"}}
TIMER = dict.fromkeys(("hours", "minutes", "seconds", "name"), ANYTHING)
LIST = {"item": {"type": "string"}, "name": {"type": "string"}}


@pytest.fixture(autouse=True)
def _use_custom_integrations() -> None:
    """Do without Home Assistant: these are plain functions."""


@pytest.mark.parametrize(
    ("given", "properties", "required", "expected"),
    [
        ({"Name": 1, "deviceClass": 2}, TURN_ON, (), {"name": 1, "device_class": 2}),
        ({"entity_id": 1, "room": 2}, TURN_ON, (), {"name": 1, "area": 2}),
        ({"domains": 1}, TURN_ON, (), {"domain": 1}),
        ({"brightness_pct": 1}, LIGHT_SET, (), {"brightness": 1}),
        ({"name": 1, "entity": 2}, TURN_ON, (), {"name": 1, "entity": 2}),
        ({"entity": 2, "name": 1}, TURN_ON, (), {"entity": 2, "name": 1}),
        ({"why": 1}, TURN_ON, (), {"why": 1}),
        ({"target": 1, "entity_id": 2}, TURN_ON, (), {"name": 1, "entity_id": 2}),
        ({"task": "Milk", "name": "x"}, LIST, LIST, {"item": "Milk", "name": "x"}),
        (
            {"task": ["a", "b"], "name": "x"},
            LIST,
            LIST,
            {"task": ["a", "b"], "name": "x"},
        ),
        ({"a": "x", "b": "y"}, LIST, LIST, {"a": "x", "b": "y"}),
        ({"kind": "x", "name": "y"}, LIST, LIST, {"kind": "x", "name": "y"}),
    ],
)
def test_renamed(
    given: dict[str, Any], properties: Any, required: Any, expected: dict[str, Any]
) -> None:
    found = renamed(given, properties, list(required), ["kind"])
    assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"target": {"entity_id": "x"}, "area": 1}, {"entity_id": "x", "area": 1}),
        ({"name": {"value": "x"}}, {"name": {"value": "x"}}),
        ({"name": "x", "data": {"name": "y"}}, {"name": "x"}),
        ({"target": {"name": "x"}, "name": None}, {"name": "x"}),
        ({"target": {"name": ""}, "data": {"name": "x"}}, {"name": "x"}),
        ({"name": None, "target": {"name": "x"}}, {"name": "x"}),
        ({"except": {"name": "x"}}, {"except": {"name": "x"}}),
    ],
)
def test_unwrapped(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert unwrapped(given, TURN_ON) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("5 minutes", {"minutes": 5}),
        ("1 hour and 30 min", {"hours": 1, "minutes": 30}),
        ("1h30m", {"hours": 1, "minutes": 30}),
        ("90s", {"seconds": 90}),
        ("0:05:00", {"minutes": 5}),
        ("1:02:03", {"hours": 1, "minutes": 2, "seconds": 3}),
        ("5", {"duration": "5"}),
        (5, {"duration": 5}),
        ("5 lightyears", {"duration": "5 lightyears"}),
        ("five minutes", {"duration": "five minutes"}),
        ("5 minutes or so", {"duration": "5 minutes or so"}),
        (f"{'9' * 5000} min", {"duration": f"{'9' * 5000} min"}),
        (f"{'9' * 5000}:00", {"duration": f"{'9' * 5000}:00"}),
    ],
)
def test_durations(words: object, expected: dict[str, Any]) -> None:
    given = {"duration": words, "name": "eggs"}
    assert with_durations(given, TIMER) == {**expected, "name": "eggs"}


def test_what_has_no_minutes_has_no_duration() -> None:
    assert with_durations({"duration": "5 min"}, LIST) == {"duration": "5 min"}

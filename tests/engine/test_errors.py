"""Messages: what somebody else chose stands in them on one line, and is cut where it is long."""

from typing import Any

import pytest

from local_llm_engine.errors import in_one_line, shown


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_short_values_are_shown_as_they_are() -> None:
    assert [shown(value) for value in (None, 32, "Büro", [1, 2], {"a": 1})] == [
        "None", "32", "'Büro'", "[1, 2]", "{'a': 1}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a" * 1_000_000, id="long text"),
        pytest.param([0] * 1_000_000, id="long list"),
        pytest.param({str(key): [0] * 100 for key in range(1_000)}, id="long object"),
        pytest.param(nested(100_000), id="deep"),
        pytest.param(10**4_299, id="long number"),
        pytest.param(10**5_000, id="number that Python does not write"),
        pytest.param("\n\0\ud800\u202e" * 50, id="what cannot be printed"),
    ],
)
def test_others_are_cut(value: object) -> None:
    text = shown(value)
    assert 0 < len(text) <= 80
    assert text.isprintable()


def test_what_a_library_says_is_one_line() -> None:
    assert in_one_line(ValueError("no\n  such\tthing")) == "no such thing"
    assert in_one_line(ValueError("a\0b\ud800")) == "a\ufffdb\ufffd"
    assert len(in_one_line(ValueError("a" * 1_000_000))) == 200

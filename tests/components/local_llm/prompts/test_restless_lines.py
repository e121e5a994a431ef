"""A line that changes again and again is found; work on a text, and a text that grows, is not."""

from collections.abc import Sequence
import json

import pytest

from custom_components.local_llm.prompts.restless_lines import (
    DAY_SECONDS,
    RestlessLines,
)

HOUR = 3600.0


def follow(versions: Sequence[str], every: float = HOUR) -> RestlessLines:
    """Follow a text whose lines are written with a / between."""
    lines = RestlessLines()
    for number, version in enumerate(versions):
        lines.follow(version.split("/"), number * every)
    return lines


def found(versions: Sequence[str], every: float = HOUR) -> tuple[str, int] | None:
    restless = follow(versions, every).restless((len(versions) - 1) * every)
    return (
        (versions[-1].split("/")[restless.number], restless.changes)
        if restless
        else None
    )


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["a/12:01/b", "a/12:02/b", "a/12:03/b", "a/12:04/b"], ("12:04", 3)),
        (["a/x/b", "a/y/b", "a/x/b", "a/y/b", "a/x/b"], ("x", 4)),
        (["a/x1/y1", "a/x2/y1", "a/x3/y2", "a/x4/y3"], ("x4", 3)),
        (["x1/a/b", "a/x2/b", "a/b/x3", "x4/a/b"], ("x4", 3)),
        (["a/x/b", "a/b", "a/x/b", "a/b", "a/x/b"], ("x", 4)),
        (["x/y/a", "y/x/a", "x/y/a", "y/x/a"], ("y", 3)),
        (["1/2", "3/4", "5/6", "7/8"], ("7", 3)),
    ],
    ids=["clock", "two", "most", "elsewhere", "comes and goes", "swaps", "all"],
)
def test_finds(versions: list[str], expected: tuple[str, int]) -> None:
    assert found(versions) == expected


@pytest.mark.parametrize(
    "versions",
    [
        ["a/b"],
        ["a/b"] * 9,
        ["a", "a/b", "a/b/c", "a/b/c/d", "e/a/b/c/d"],
        ["a/b/c/d", "b/c/d", "c/d", "d"],
        ["a/b/c", "x/b/c", "x/y/c", "x/y/z"],
        ["a/x1", "a/x2", "a/x3"],
        ["", "a", ""],
        ["x/x/x/x", "y/y/y/y"],
        ["a/ x/b/ x/c/ x", "a/ y/b/ x/c/ x", "a/ y/b/ y/c/ x", "a/ y/b/ y/c/ y"],
    ],
    ids=[
        "one",
        "same",
        "grows",
        "shrinks",
        "each once",
        "twice",
        "empty",
        "many of a kind once",
        "each of a kind once",
    ],
)
def test_leaves_in_peace(versions: list[str]) -> None:
    assert found(versions) is None


def test_once_a_day_is_a_date() -> None:
    assert found([f"day {day}" for day in range(9)], DAY_SECONDS) is None


def test_what_has_kept_still_for_a_day_is_forgiven() -> None:
    lines = follow(["1", "2", "3", "4"])
    assert lines.restless(3 * HOUR)
    assert lines.restless(3 * HOUR + DAY_SECONDS / 2)
    assert lines.restless(1 * HOUR + DAY_SECONDS) is None


def test_tells_whether_a_version_is_new() -> None:
    lines = RestlessLines()
    told = [lines.follow(version, 0.0) for version in ("a", "a", "b", "b")]
    assert told == [True, False, True, False]


def test_goes_on_after_a_restart() -> None:
    lines = follow(["a/1", "a/2", "a/3"])
    again = RestlessLines.from_stored(
        *json.loads(json.dumps([lines.version, lines.changes]))
    )
    again.follow(["a", "4"], 3 * HOUR)
    restless = again.restless(3 * HOUR)
    assert restless
    assert (restless.number, restless.changes) == (1, 3)


def test_keeps_no_words() -> None:
    lines = follow(["secret/12:01", "secret/12:02"])
    stored = json.dumps([lines.version, lines.changes])
    assert "secret" not in stored
    assert "12:0" not in stored


def test_a_clock_that_was_put_back_leaves_nothing_in_the_future() -> None:
    lines = follow(["1", "2", "3", "4"])
    assert lines.restless(3 * HOUR - 2 * DAY_SECONDS) is None


def test_thousands_of_lines_are_compared_in_no_time() -> None:
    """Most of them are like many others, and a change of the first and the last leaves all of them between."""
    lines = RestlessLines()
    for number in range(4):
        kinds = [
            "domain: light",
            f"areas: Kitchen {number}",
            "",
            "floors: Ground",
        ] * 2000
        lines.follow([f"x{number}", *kinds, f"y{number}"], number * HOUR)
    restless = lines.restless(3 * HOUR)
    assert restless
    assert (restless.number, restless.changes) == (0, 3)

"""Words for days mean the days that people mean."""

from datetime import date

import pytest

from custom_components.local_llm.weather_tool.days import DayWords, meant_days

# A Monday
TODAY = date(2026, 11, 30)
WORDS = DayWords(
    days_ahead={
        "today": 0,
        "tomorrow": 1,
        "dayaftertomorrow": 2,
        "morgen": 1,
        "ubermorgen": 2,
        "明日": 1,
    },
    weekdays={
        "monday": 1,
        "wednesday": 3,
        "friday": 5,
        "saturday": 6,
        "sunday": 7,
        "mittwoch": 3,
        "月曜日": 1,
    },
    months={"december": 12, "january": 1, "dezember": 12, "november": 11, "1月": 1},
    weekend=frozenset({"weekend"}),
)


@pytest.fixture(autouse=True)
def _use_custom_integrations() -> None:
    """Do without Home Assistant: these are plain functions."""


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-11-30"),
        ("Tomorrow", "2026-12-01"),
        ("tomorrow morning", "2026-12-01"),
        ("the day after tomorrow", "2026-12-02"),
        ("morgen", "2026-12-01"),
        ("Übermorgen", "2026-12-02"),
        ("明日の天気", "2026-12-01"),
        ("Monday", "2026-11-30"),
        ("next Monday", "2026-12-07"),
        ("on Wednesday", "2026-12-02"),
        ("next Wednesday", "2026-12-02"),
        ("Mittwoch", "2026-12-02"),
        ("fri", "2026-12-04"),
        ("月曜日", "2026-11-30"),
        ("2026-12-24", "2026-12-24"),
        ("2026-12-24T00:00:00", "2026-12-24"),
        ("24 December", "2026-12-24"),
        ("December 24th, 2027", "2027-12-24"),
        ("24. Dezember", "2026-12-24"),
        ("3 January", "2027-01-03"),
        ("20 November", "2026-11-20"),
        ("Friday, 4 December", "2026-12-04"),
    ],
)
def test_one_day(text: str, day: str) -> None:
    meant = meant_days(text, TODAY, WORDS)
    assert meant is not None
    assert [str(end) for end in meant] == [day, day]


@pytest.mark.parametrize(
    ("today", "first", "last"),
    [
        ("2026-11-30", "2026-12-05", "2026-12-06"),
        ("2026-12-05", "2026-12-05", "2026-12-06"),
        ("2026-12-06", "2026-12-06", "2026-12-06"),
    ],
)
def test_a_weekend(today: str, first: str, last: str) -> None:
    meant = meant_days("at the weekend", date.fromisoformat(today), WORDS)
    assert meant is not None
    assert [str(end) for end in meant] == [first, last]


@pytest.mark.parametrize(
    "text",
    ["", "soon", "12", "2026-13-40", "31 November", "yesterday", "xyz", "in May"],
)
def test_no_day(text: str) -> None:
    assert meant_days(text, TODAY, WORDS) is None

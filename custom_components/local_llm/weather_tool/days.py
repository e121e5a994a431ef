"""Which days a question about the weather means: today, tomorrow, a weekday, the weekend or a date; pure.

Knows nothing of the weather.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
import re
from typing import NamedTuple

from ..tool_calls.spelling import folded

_SATURDAY = 6
# A date without a year that is this long ago is next year's.
_LONG_AGO = timedelta(days=60)
_NEXT = re.compile(r"\bnext\b", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_OF_MONTH = re.compile(r"(?<!\d)([12]?\d|3[01])(?!\d)")
_YEAR = re.compile(r"(?<!\d)2\d{3}(?!\d)")


@dataclass(frozen=True, slots=True)
class DayWords:
    """The words for days in all languages that may be spoken, folded.

    `days_ahead` has a number of days from today on, `weekdays` 1 for Monday, `months` 1 for January.
    """

    days_ahead: Mapping[str, int]
    weekdays: Mapping[str, int]
    months: Mapping[str, int]
    weekend: frozenset[str]


class Days(NamedTuple):
    """The days that are meant, both included."""

    first: date
    last: date


def meant_days(text: str, today: date, words: DayWords) -> Days | None:
    """Return the days that a text means; None where it means none."""
    key = folded(text)
    if (day := _date(text, key, today, words)) is not None:
        return Days(day, day)
    if _said(key, words.weekend) is not None:
        saturday = _coming(today, _SATURDAY)
        if today.isoweekday() > _SATURDAY:
            return Days(today, today)
        return Days(saturday, saturday + timedelta(days=1))
    if (said := _said(key, words.days_ahead)) is not None:
        day = today + timedelta(days=words.days_ahead[said])
        return Days(day, day)
    if (said := _said(key, words.weekdays) or _short(key, words.weekdays)) is None:
        return None
    day = _coming(today, words.weekdays[said])
    if day == today and _NEXT.search(text):
        day += timedelta(days=7)
    return Days(day, day)


def _date(text: str, key: str, today: date, words: DayWords) -> date | None:
    """Read a date with the month in numbers or by its name; None where there is none."""
    try:
        if iso := _ISO.search(text):
            return date.fromisoformat(iso[0])
        month, day = _said(key, words.months), _DAY_OF_MONTH.search(text)
        if month is None or day is None:
            return None
        year = _YEAR.search(text)
        found = date(
            int(year[0]) if year else today.year, words.months[month], int(day[0])
        )
        if not year and found < today - _LONG_AGO:
            found = found.replace(year=today.year + 1)
    except ValueError:
        return None
    return found


def _said(key: str, known: Iterable[str]) -> str | None:
    """Return the longest known word that a text holds."""
    return max((word for word in known if word in key), key=len, default=None)


def _short(key: str, weekdays: Iterable[str]) -> str | None:
    """Return the weekday that a text of three letters begins."""
    return next(
        (day for day in weekdays if len(key) == 3 and day.startswith(key)), None
    )


def _coming(today: date, weekday: int) -> date:
    """Return the next such weekday; today counts."""
    return today + timedelta(days=(weekday - today.isoweekday()) % 7)

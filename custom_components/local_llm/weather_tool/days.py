"""Which days a question about the weather means: today, tomorrow, a weekday, the weekend or a date; pure.

Knows nothing of the weather.
"""

from datetime import date, timedelta
import re
from typing import NamedTuple

from .day_words import DayWords, as_key

_SATURDAY = 6
_WEEK = timedelta(days=7)
# A date without a year that is this long ago is next year's.
_LONG_AGO = timedelta(days=60)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_OF_MONTH = re.compile(r"(?<!\d)([12]?\d|3[01])(?!\d)")
_YEAR = re.compile(r"(?<!\d)2\d{3}(?!\d)")


class Days(NamedTuple):
    """The days that are meant, both included."""

    first: date
    last: date


def meant_days(text: str, today: date, words: DayWords) -> Days | None:
    """Return the days that a text means; None where it means none."""
    key = as_key(text)
    if (day := _date(text, key, today, words)) is not None:
        return Days(day, day)
    if words.weekend.first(key):
        is_next_week = words.next_week.first(key) is not None
        if today.isoweekday() > _SATURDAY and not is_next_week:
            return Days(today, today)
        saturday = _on(_SATURDAY, today, is_next_week=is_next_week)
        return Days(saturday, saturday + timedelta(days=1))
    day = _day(key, today, words)
    return None if day is None else Days(day, day)


def _date(text: str, key: str, today: date, words: DayWords) -> date | None:
    """Read a date with the month in numbers or by its name; None where there is none."""
    try:
        if iso := _ISO.search(text):
            return date.fromisoformat(iso[0])
        month = words.months.first(key)
        if month is None:
            return None
        # The name of a month may hold a number.
        others = f"{key[: month.start]} {key[month.end :]}"
        day, year = _DAY_OF_MONTH.search(others), _YEAR.search(others)
        if day is None:
            return None
        found = date(int(year[0]) if year else today.year, month.number, int(day[0]))
        if not year and found < today - _LONG_AGO:
            found = found.replace(year=today.year + 1)
    except ValueError:
        return None
    return found


def _day(key: str, today: date, words: DayWords) -> date | None:
    """Read a day that is so many days ahead, or a weekday; None where there is none."""
    ahead, weekday = words.days_ahead.first(key), words.weekdays.first(key)
    # What stands first is the day: the German "morgen" behind it is its morning.
    if ahead and (weekday is None or ahead.start < weekday.start):
        return today + timedelta(days=ahead.number)
    if weekday is None:
        weekday = words.short_weekdays.first(key)
        if weekday is None or weekday.end - weekday.start < len(key):
            return None
    is_next_week = words.next_week.first(key) is not None
    day = _on(weekday.number, today, is_next_week=is_next_week)
    return day + _WEEK if day == today and words.next.first(key) else day


def _on(weekday: int, today: date, *, is_next_week: bool) -> date:
    """Return the next such weekday, today counts; or that of the week that begins on the next Monday."""
    if is_next_week:
        return today + timedelta(days=7 - today.isoweekday() + weekday)
    return today + timedelta(days=(weekday - today.isoweekday()) % 7)

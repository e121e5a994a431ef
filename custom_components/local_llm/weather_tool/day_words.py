"""Finds words for days in a text, in all languages that may be spoken; pure.

Knows nothing of what day it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import re
from typing import NamedTuple, Self

from ..tool_calls.spelling import folded_words

_NUMBERED = re.compile(r"(day|weekday|month)_(\d+)")
# Words that may have an ending, such as "Mondays" and "Freitagabend"
_BEGINNINGS = ("weekday", "weekend")
# How a weekday may be shortened
_SHORT = (2, 3)


class Said(NamedTuple):
    """Where a word begins and ends in a text, and the number that it stands for."""

    start: int
    end: int
    number: int


class Words:
    """Words of one kind."""

    def __init__(self, numbers: Mapping[str, int], *, are_whole: bool) -> None:
        """Take folded words, each with what it stands for."""
        self._patterns = [
            (_pattern(word, is_whole=are_whole), number)
            for word, number in numbers.items()
        ]

    def first(self, text: str) -> Said | None:
        """Return the word that a folded text holds first; of two that begin there the longer."""
        found = (
            Said(match.start(), match.end(), number)
            for pattern, number in self._patterns
            if (match := pattern.search(text))
        )
        return min(found, key=lambda said: (said.start, -said.end), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayWords:
    """The words for days.

    They stand for days from today on, 1 for Monday and 1 for January; the other numbers mean nothing.
    """

    days_ahead: Words
    weekdays: Words
    short_weekdays: Words
    months: Words
    weekend: Words
    next: Words
    next_week: Words

    @classmethod
    def of(cls, languages: Iterable[Mapping[str, str]]) -> Self:
        """Read the texts `day_0`, `weekday_1`, `month_1`, `weekend`, `next` and `next_week` of some languages.

        Each may list several words with commas.
        """
        known: dict[str, dict[str, int]] = {}
        for texts in languages:
            for key, text in texts.items():
                numbered = _NUMBERED.fullmatch(key)
                kind, number = numbered.groups() if numbered else (key, "0")
                for word in text.split(","):
                    known.setdefault(kind, {})[as_key(word)] = int(number)

        def words(kind: str) -> Words:
            return Words(known[kind], are_whole=kind not in _BEGINNINGS)

        return cls(
            days_ahead=words("day"),
            weekdays=words("weekday"),
            short_weekdays=Words(_shortened(known["weekday"]), are_whole=True),
            months=words("month"),
            weekend=words("weekend"),
            next=words("next"),
            next_week=words("next_week"),
        )


def as_key(text: str) -> str:
    """Return a text in which words are looked for."""
    return " ".join(folded_words(text))


def _pattern(word: str, *, is_whole: bool) -> re.Pattern[str]:
    """Return what finds a word, whether or not spaces part it.

    Where a language writes no spaces between words, one may stand anywhere.
    """
    has_spaces = word.isascii()
    begin = r"\b" if has_spaces else r"(?<!\d)" if word[0].isdigit() else ""
    end = r"\b" if has_spaces and is_whole else ""
    return re.compile(f"{begin}{word.replace(' ', ' ?')}{end}")


def _shortened(weekdays: Mapping[str, int]) -> dict[str, int]:
    """Return what weekdays begin with, as far as it is one day's alone."""
    meant: dict[str, set[int]] = {}
    for word, number in weekdays.items():
        for length in _SHORT:
            meant.setdefault(word[:length], set()).add(number)
    return {word: min(numbers) for word, numbers in meant.items() if len(numbers) == 1}

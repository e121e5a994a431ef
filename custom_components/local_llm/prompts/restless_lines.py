"""Finds lines of a text that change again and again, by fingerprints alone: of the text itself nothing is kept.

Pure; knows nothing of prompts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2s
from itertools import zip_longest
from typing import NamedTuple, Self

DAY_SECONDS = 86_400.0
# So many changes of one line in a day are no accident, and nobody's work on it.
RESTLESS_CHANGES = 3


class RestlessLine(NamedTuple):
    """A line that has changed so often within a day."""

    number: int
    changes: int


class RestlessLines:
    """Follows one text from version to version.

    A line keeps its history when other words take its place; a line that comes and goes has one, too.
    """

    def __init__(self) -> None:
        """Start without a version. `version` holds fingerprints of lines, `changes` when each of them changed."""
        self.version: tuple[str, ...] = ()
        self.changes: dict[str, list[float]] = {}

    def follow(self, lines: Iterable[str], now: float) -> bool:
        """Take the next version, in seconds since 1970; tell whether it differs from the last."""
        current = tuple(_fingerprints(lines))
        before, self.version = self.version, current
        if not before or before == current:
            return before != current
        for old, new in _changed(before, current):
            times = self.changes.pop(old, []) if old else []
            line = new or old
            assert line
            # Several lines that become one and the same have changed once.
            known = {*self.changes.get(line, ()), *times, now}
            self.changes[line] = sorted(time for time in known if _is_recent(time, now))
        return True

    def restless(self, now: float) -> RestlessLine | None:
        """Return the line of the last version that changes most often; None where all keep still."""
        # Few lines ever change, of the thousands that a house has.
        often = {
            line: changes
            for line in self.changes
            if (changes := self._recent(line, now)) >= RESTLESS_CHANGES
        }
        found = [
            RestlessLine(number, often[line])
            for number, line in enumerate(self.version if often else ())
            if line in often
        ]
        return max(found, key=lambda line: line.changes, default=None)

    @classmethod
    def from_stored(
        cls, version: Iterable[str], changes: Mapping[str, Iterable[float]]
    ) -> Self:
        """Go on where an earlier run stopped."""
        followed = cls()
        followed.version = tuple(version)
        followed.changes = {line: list(times) for line, times in changes.items()}
        return followed

    def _recent(self, line: str, now: float) -> int:
        return sum(_is_recent(time, now) for time in self.changes[line])


def _is_recent(time: float, now: float) -> bool:
    """Tell whether a change counts; a clock that was put back leaves some in the future, which would count until then."""
    return abs(now - time) < DAY_SECONDS


def _fingerprints(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line's fingerprint; an indented one is told from its like by the line that it stands under."""
    above = ""
    for line in lines:
        if not line.startswith(" "):
            above = ""
        text = f"{above}{line}".encode(errors="replace")
        yield blake2s(text, digest_size=8).hexdigest()
        above = above or line


def _changed(
    before: Sequence[str], after: Sequence[str]
) -> list[tuple[str | None, str | None]]:
    """Return what took the place of what; None where a line came or went without another in its place."""
    head = _num_common(before, after)
    tail = _num_common(before[head:][::-1], after[head:][::-1])
    before = before[head : len(before) - tail]
    after = after[head : len(after) - tail]
    # Counted, not aligned: a house has thousands of lines, and many are equal.
    kept = Counter(before) & Counter(after)
    gone, come = _without(before, kept), _without(after, kept)
    # Lines that only made room for others did not change.
    return list(zip_longest(gone, come)) or [
        # Which of them moved past the others cannot be told.
        (line, line)
        for line in dict.fromkeys(before)
    ]


def _num_common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Count the lines that two texts begin with in common."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    limit = min(len(ours), len(theirs))
    return next((index for index, (one, other) in pairs if one != other), limit)


def _without(lines: Iterable[str], others: Counter[str]) -> list[str]:
    """Leave out as many of each line as there are among the others."""
    left = Counter(others)
    kept = []
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
        else:
            kept.append(line)
    return kept

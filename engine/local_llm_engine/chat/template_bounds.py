"""How much a template may do: how many steps it may take, how long it may compute, and how much it may make at once.

Whatever makes something larger of its parts is asked beforehand how large that would be; whatever runs again and
again takes steps. Knows nothing of Jinja's environment.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import re
import threading
import time
from types import MappingProxyType
from typing import Any

from jinja2.exceptions import SecurityError

# An honest template takes some ten steps a message and is done in milliseconds.
MAX_STEPS = 500_000
MAX_SECONDS = 1.5
# Of one text or list, in characters and elements; a context of a million tokens is as long.
MAX_MADE = 4_000_000
# Of all that a template makes, the same characters again and again.
_MAX_MADE_IN_ALL = 100_000_000
# A mask: at every fourth step somebody looks whether it goes on for too long.
_STEPS_BETWEEN_LOOKS = 3
# What a thread has computed is asked this often: asking takes longer than a step.
_SECONDS_BETWEEN_LOOKS = 0.1
# An element of a list takes as much as so many characters.
_ELEMENT = 8
_WIDEST = 1_000
# What lines and words end with.
_SEPARATORS = " \t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

# A width that a format asks for, or takes from its arguments.
_WIDE_PERCENT = re.compile(r"%[^a-zA-Z%]*(\d{4}|\*)")
_WIDE_BRACES = re.compile(r"[:!][^{}]*(\d{4}|\{)")


class _Left:
    """What is left of one rendering."""

    __slots__ = ("deadline", "made", "next_look", "steps")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.made = _MAX_MADE_IN_ALL
        self.deadline = time.thread_time() + MAX_SECONDS
        self.next_look = time.perf_counter() + _SECONDS_BETWEEN_LOOKS


class Bounds:
    """What is left of each rendering; every thread renders by itself."""

    def __init__(self) -> None:
        """Bound nothing before `begin`."""
        self._own = threading.local()

    def begin(self) -> None:
        """Begin a rendering in this thread."""
        self._own.left = _Left()

    def step(self) -> None:
        """Take a step.

        Raises:
            SecurityError: there are too many of them, or they took too long.
        """
        left: _Left = self._own.left
        left.steps -= 1
        if not left.steps & _STEPS_BETWEEN_LOOKS:
            self._look(left)

    def _look(self, left: _Left) -> None:
        if left.steps < 0:
            refuse(f"take more than {MAX_STEPS} steps")
        now = time.perf_counter()
        if now > left.next_look:
            left.next_look = now + _SECONDS_BETWEEN_LOOKS
            if time.thread_time() > left.deadline:
                refuse(f"compute for more than {MAX_SECONDS} seconds")

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        """Take a step for every item of a loop."""
        for item in items:
            self.step()
            yield item

    def made[T](self, value: T) -> T:
        """Count what was made.

        Raises:
            SecurityError: it is too large, or too much was made.
        """
        self.allow(size_of(value))
        return value

    def allow(self, size: int) -> None:
        """Count what is about to be made.

        Raises:
            SecurityError: it would be too large, or too much was made.
        """
        if size > MAX_MADE:
            refuse(
                f"make a text of {size} characters, or a list as long; at most {MAX_MADE}"
            )
        left: _Left = self._own.left
        left.made -= size
        if left.made < 0:
            refuse(f"make more than {_MAX_MADE_IN_ALL} characters in all")


def refuse(what: str) -> None:
    """Refuse what a template does."""
    raise SecurityError(f"a template may not {what}")


def size_of(value: Any, known: dict[int, int] | None = None) -> int:
    """Measure a value as if it were written out; what stands in it twice counts twice.

    A list of lists of lists that are all the same is small in memory, and endless when it is written. No more is
    looked at than is allowed.
    """
    if isinstance(value, str | bytes):
        return len(value)
    if not isinstance(value, list | tuple | dict):
        return 1
    if _ELEMENT * len(value) > MAX_MADE:
        return _ELEMENT * len(value)
    known = {} if known is None else known
    size = known.get(id(value))
    if size is None:
        items = (*value.keys(), *value.values()) if isinstance(value, dict) else value
        size = _ELEMENT * (1 + len(items)) + sum(size_of(item, known) for item in items)
        known[id(value)] = size
    return size


def formatted_size(text: str, num_fields: int, values: Iterable[Any]) -> int:
    """Bound the size of a text whose fields take any of `values`."""
    return len(text) + num_fields * (_WIDEST + sum(map(size_of, values)))


def percent_size(text: str, values: Any) -> int:
    """Bound the size of what `text % values` makes."""
    if _WIDE_PERCENT.search(text):
        refuse("format to a width of thousands")
    values = values if isinstance(values, tuple) else (values,)
    return formatted_size(text, text.count("%"), values)


def braces_size(text: str, values: Iterable[Any]) -> int:
    """Bound the size of what `text.format(...)` makes."""
    if _WIDE_BRACES.search(text):
        refuse("format to a width of thousands")
    return formatted_size(text, text.count("{"), values)


def _padded(text: str, width: int = 0, *_: Any) -> int:
    return max(len(text), width)


def _expanded(text: str, tabsize: int = 8) -> int:
    return len(text) + text.count("\t") * max(0, tabsize)


def replaced_size(text: str, old: str = "", new: str = "", *_: Any) -> int:
    """Bound the size of a text with every `old` replaced; nothing at all stands between all characters."""
    count = text.count(old) if old else len(text) + 1
    return len(text) + count * len(new)


def _joined(text: str, items: Any = ()) -> int:
    count = len(items) if hasattr(items, "__len__") else 0
    return size_of(items) + count * len(text)


def _parted(text: str, sep: str | None = None, *_: Any, **__: Any) -> int:
    num_parts = text.count(sep) if sep else sum(map(text.count, _SEPARATORS))
    return len(text) + _ELEMENT * num_parts


def _lines(text: str, *_: Any, **__: Any) -> int:
    return _parted(text)


def _translated(text: str, table: Any = None) -> int:
    longest = max(map(size_of, table.values()), default=1) if isinstance(table, Mapping) else 1  # fmt: skip
    return len(text) * max(1, longest)


def _as_bytes(_: int, length: int = 1, *__: Any, **___: Any) -> int:
    return length


# What methods of texts and numbers can make far more than they are given, and how much.
GROWING_METHODS: Mapping[str, Callable[..., int]] = MappingProxyType(
    {
        "center": _padded,
        "expandtabs": _expanded,
        "join": _joined,
        "ljust": _padded,
        "replace": replaced_size,
        "rjust": _padded,
        "rsplit": _parted,
        "split": _parted,
        "splitlines": _lines,
        "to_bytes": _as_bytes,
        "translate": _translated,
        "zfill": _padded,
    }
)

"""Reads the values that a GGUF header is made of, one after the other, and never more than the file can hold.

Knows how values are laid out; knows no key.
"""

from collections.abc import Mapping
from pathlib import Path
import struct
from types import MappingProxyType
from typing import BinaryIO, NoReturn

from ..errors import WeightFormatError

type Value = str | float | tuple[str | float, ...]

# A vocabulary of a quarter of a million tokens with its merges takes a tenth of it.
MAX_HEADER_BYTES = 100_000_000
# A chat template has some ten thousand.
_MAX_TEXT_BYTES = 1 << 22
# Of all arrays together: the largest published vocabularies, with merges, scores and kinds, have half of it.
_MAX_ARRAY_ELEMENTS = 1 << 21
_STRING = 8
_ARRAY = 9
_CODES: Mapping[int, str] = MappingProxyType(
    {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
        12: "d",
    }
)


class HeaderStream:
    """The values of a header in their order; `position` is that of the next one.

    Every method refuses, with a WeightFormatError, what goes beyond the file or the bounds.
    """

    def __init__(self, file: Path, raw: BinaryIO, size: int) -> None:
        """Read `raw` from its start; `size` is that of the whole file."""
        self.position = 0
        self._file = file
        self._raw = raw
        self._size = size
        self._elements_left = _MAX_ARRAY_ELEMENTS

    def refuse(self, problem: str) -> NoReturn:
        """Refuse the file."""
        raise WeightFormatError(f"{self._file}: {problem}")

    def take(self, count: int, what: str) -> bytes:
        """Read so many bytes."""
        end = self.position + count
        if end > self._size:
            self.refuse(
                f"is cut short: {what[:80]} ends at byte {end}, the file has {self._size}"
            )
        if end > MAX_HEADER_BYTES:
            self.refuse(
                f"claims a header of more than {MAX_HEADER_BYTES} bytes, so this is no intact GGUF file"
            )
        found = self._raw.read(count)
        if len(found) != count:
            self.refuse("has become shorter while it was read")
        self.position = end
        return found

    def number(self, code: str) -> int:
        """Read one whole number; `code` is that of the struct module."""
        found: int
        (found,) = struct.unpack(
            f"<{code}", self.take(struct.calcsize(f"<{code}"), "a number")
        )
        return found

    def count(self, what: str, limit: int) -> int:
        """Read how many of something follow."""
        count = self.number("Q")
        if count > limit:
            self.refuse(
                f"claims {count} {what}; at most {limit} are allowed, so this is no intact GGUF file"
            )
        return count

    def text(self, what: str, limit: int = _MAX_TEXT_BYTES) -> str:
        """Read a string of at most so many bytes."""
        length = self.number("Q")
        if length > limit:
            self.refuse(
                f"{what[:80]} claims {length} bytes; at most {limit} are allowed"
            )
        try:
            return self.take(length, what).decode()
        except UnicodeDecodeError as err:
            self.refuse(
                f"{what[:80]} is not UTF-8 text: {err.reason} at byte {err.start}"
            )

    def value(self, key: str) -> Value:
        """Read the value of a key: its kind, then what it is."""
        what = f"the value of {key[:60]!r}"
        kind = self.number("I")
        if kind != _ARRAY:
            return self._values(kind, 1, what)[0]
        kind = self.number("I")
        count = self.count(f"elements in {what[:80]}", self._elements_left)
        self._elements_left -= count
        return self._values(kind, count, what)

    def _values(self, kind: int, count: int, what: str) -> tuple[str | float, ...]:
        if kind == _STRING:
            return tuple(self.text(what) for _ in range(count))
        code = _CODES.get(kind)
        if code is None:
            problem = (
                "is an array of arrays"
                if kind == _ARRAY
                else f"is of the unknown kind {kind}"
            )
            self.refuse(
                f"{what[:80]} {problem}; right are numbers and strings, and arrays of them"
            )
        form = f"<{count}{code}"
        return struct.unpack(form, self.take(struct.calcsize(form), what))

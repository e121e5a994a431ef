"""Keeps the control tokens that a template writes apart from the same characters in anybody's words.

Words are guarded before they go into the template: a break inside everything that reads like a
control token. After rendering, what still reads like one was written by the template. Positions are
measured the same way, with numbered marks. Breaks and marks are lone surrogates: no text that can be
encoded holds one, so nobody's words can forge or lose one.

Knows nothing of messages, nor of how plain text becomes tokens.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
import re
from typing import Any

_BREAK = "\udfff"
_MARK = "\udffe"
_DIGIT_BASE = 1024
_FIRST_DIGIT = 0xD800
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def readable(text: str) -> str:
    """Replace lone surrogates, which no tokenizer can read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(_REPLACEMENT, text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlToken:
    """A token that stands for itself and not for its characters.

    `lstrip` and `rstrip` say that it swallows the whitespace before or after it.
    """

    id: int
    text: str
    lstrip: bool = False
    rstrip: bool = False

    @property
    def can_be_guarded(self) -> bool:
        """Whether it can be kept apart from its characters.

        Whitespace is ordinary vocabulary wherever it stands, and a single character has no inside to break.
        """
        return len(self.text) > 1 and not self.text.isspace()


@dataclass(frozen=True, slots=True)
class ControlSpan:
    """Where a control token stands in a rendered text, in characters."""

    start: int
    end: int
    token_id: int


@dataclass(frozen=True, slots=True)
class RenderedText:
    """What a template wrote, without breaks and marks.

    `marks` has the character position of every mark that came out exactly once.
    """

    text: str
    controls: tuple[ControlSpan, ...]
    marks: Mapping[int, int]

    def last_control_before(self, position: int) -> int:
        """Return where the last control token begins that ends at or before a position; 0 where none does."""
        index = bisect_right(self.controls, position, key=lambda span: span.end)
        return self.controls[index - 1].start if index else 0

    def from_control(self, opening: str) -> RenderedText | None:
        """Return the text from the first control token on that it opens with; without marks."""
        for index, first in enumerate(self.controls):
            if self.text.startswith(opening, first.start):
                begin = first.start
                controls = tuple(
                    ControlSpan(span.start - begin, span.end - begin, span.token_id)
                    for span in self.controls[index:]
                )
                return RenderedText(self.text[begin:], controls, {})
        return None


def mark(number: int) -> str:
    """Write the mark with this number, 0 .. 1,048,575, to be put into guarded text."""
    high, low = divmod(number, _DIGIT_BASE)
    return f"{_MARK}{chr(_FIRST_DIGIT + high)}{chr(_FIRST_DIGIT + low)}"


class ControlText:
    """Guards words on their way into a template and reads what comes out; immutable."""

    def __init__(self, tokens: Sequence[ControlToken]) -> None:
        """Learn the control tokens."""
        self._tokens = {token.text: token for token in tokens}
        texts = [token.text for token in tokens if token.can_be_guarded]
        self._longest = max(map(len, texts), default=1)
        self._whole = _any_of(texts)
        self._whole_or_overlapping = re.compile(f"(?={self._whole.pattern})")
        self._head_at_end = re.compile(
            _any_of({text[:n] for text in texts for n in range(1, len(text))}).pattern
            + r"\Z"
        )
        self._tail = _any_of({text[n:] for text in texts for n in range(1, len(text))})
        written = sorted(map(re.escape, self._tokens), key=len, reverse=True)
        digit = f"[{chr(_FIRST_DIGIT)}-{chr(_FIRST_DIGIT + _DIGIT_BASE - 1)}]"
        self._markup = re.compile(
            "|".join((_BREAK, f"{_MARK}({digit})({digit})", *written))
        )

    def guard(self, text: str, marks: Iterable[tuple[int, int]] = ()) -> str:
        """Make a text safe to hand to the template, with marks put in.

        Args:
            text: anybody's words, made `readable`.
            marks: (position in `text`, mark number), ascending in position.
        """
        text = readable(text)
        insertions = [(position, mark(number)) for position, number in marks]
        insertions += [(position, _BREAK) for position in self._breaks(text)]
        if not insertions:
            return text
        pieces: list[str] = []
        done = 0
        for position, inserted in sorted(
            insertions, key=lambda insertion: insertion[0]
        ):
            pieces += (text[done:position], inserted)
            done = position
        return "".join((*pieces, text[done:]))

    def guard_data(self, value: Any) -> Any:
        """Copy a value as plain JSON data with every string in it guarded, keys too.

        What JSON does not know becomes text.
        """
        match value:
            case None | bool():
                return value
            case Enum():
                return self.guard_data(value.value)
            case str():
                return self.guard(str(value))
            case int():
                return int(value)
            case float():
                return float(value)
            case Mapping():
                return {
                    self.guard(str(key)): self.guard_data(item)
                    for key, item in value.items()
                }
            case list() | tuple() | set() | frozenset():
                return [self.guard_data(item) for item in value]
            case _:
                return self.guard(str(value))

    def read(self, rendered: str) -> RenderedText:
        """Find the template's control tokens and the marks in what it wrote, and take the breaks out."""
        pieces: list[str] = []
        controls: list[ControlSpan] = []
        seen: dict[int, list[int]] = {}
        done = length = 0
        for found in self._markup.finditer(rendered):
            start, end = found.span()
            if start < done:
                continue
            token = self._tokens.get(found[0])
            if token is not None:
                start, end = _with_whitespace(token, rendered, done, start, end)
            pieces.append(rendered[done:start])
            length += start - done
            done = end
            if token is not None:
                pieces.append(rendered[start:end])
                controls.append(ControlSpan(length, length + end - start, token.id))
                length += end - start
            elif found[1] is not None:
                seen.setdefault(_number(found[1], found[2]), []).append(length)
        pieces.append(rendered[done:])
        marks = {
            number: positions[0]
            for number, positions in seen.items()
            if len(positions) == 1
        }
        # A template can write halves of characters of its own.
        text = readable("".join(pieces))
        return RenderedText(text, tuple(controls), marks)

    def _breaks(self, text: str) -> list[int]:
        """Where breaks must go so that `text` can neither hold nor complete a control token."""
        breaks = []
        if self._tail.match(text):
            breaks.append(0)
        if self._whole.search(text):
            breaks += [
                found.start() + 1 for found in self._whole_or_overlapping.finditer(text)
            ]
        if self._head_at_end.search(text[-self._longest :]):
            breaks.append(len(text))
        return breaks


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Match any of the texts, the longest first; nothing where there are none."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile(f"(?:{'|'.join(map(re.escape, ordered)) or '(?!)'})")


def _with_whitespace(
    token: ControlToken, text: str, low: int, start: int, end: int
) -> tuple[int, int]:
    """Widen a token's place by the whitespace that it swallows, down to `low`."""
    if token.lstrip:
        start = low + len(text[low:start].rstrip())
    if token.rstrip:
        end = len(text) - len(text[end:].lstrip())
    return start, end


def _number(high: str, low: str) -> int:
    return (ord(high) - _FIRST_DIGIT) * _DIGIT_BASE + ord(low) - _FIRST_DIGIT

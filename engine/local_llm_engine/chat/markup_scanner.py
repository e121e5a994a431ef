"""Finds markup that is spelled out in an answer's words, for tokenizers without tokens for it.

Spelled markup counts only where an answer would put it and not where it is explained: a call at the start
of a line, outside fenced code, with the beginning of a call behind it; a think block at the very start.
Knows nothing of what becomes of the pieces.
"""

from collections.abc import Container
from enum import Enum
import re
from typing import NamedTuple

THINK = "<think>"
THINK_END = "</think>"
TOOL_CALL = "<tool_call>"
TOOL_CALL_END = "</tool_call>"

# What stands behind <tool_call>; a model may also write nothing between the tags.
CALL_BEGINNINGS = ("<function=", "{", "[", TOOL_CALL_END)
_FENCE = "```"
# A shorter beginning of <tool_call> at the end of an answer may be anything.
_LEAST_CUT_SHORT = len("<tool")


class PieceKind(Enum):
    """What a piece of an answer's content is."""

    WORDS = "words"
    CALL_START = "call start"
    THINK_START = "think start"
    STRAY_END = "stray end"
    UNDECIDED = "undecided"


class Piece(NamedTuple):
    """The first `length` characters of the text are of this kind."""

    kind: PieceKind
    length: int


_UNDECIDED = Piece(PieceKind.UNDECIDED, 0)


class MarkupScanner:
    """Cuts content into words and spelled markup; remembers where in the lines it is."""

    def __init__(self, control_texts: Container[str]) -> None:
        """Start an answer; what is in `control_texts` has tokens and is never looked for."""
        self._opening = [
            text for text in (TOOL_CALL, THINK) if text not in control_texts
        ]
        self._closing = [
            text for text in (THINK_END, TOOL_CALL_END) if text not in control_texts
        ]
        self._closing_or_newline = re.compile(
            "|".join(("\n", *map(re.escape, self._closing)))
        )
        self._at_line_start = True
        self._at_answer_start = True
        self._in_fence = False
        self._last_character = ""

    def start_line(self) -> None:
        """Say that markup came between: what follows it stands at the start of a line."""
        self._at_line_start = True

    def next_piece(self, text: str, *, final: bool) -> Piece:
        """Decide about the front of a text, which is not empty; with `final`, nothing follows it."""
        if not self._opening and not self._closing:
            return Piece(PieceKind.WORDS, len(text))
        if self._at_line_start and (piece := self._at_start_of_line(text, final=final)):
            return piece
        return self._within_line(text, final=final)

    def _at_start_of_line(self, text: str, *, final: bool) -> Piece | None:
        """Decide what a line begins with; None for words."""
        rest = text.lstrip(" \t")
        indent = len(text) - len(rest)
        if rest.startswith(_FENCE):
            self._in_fence = not self._in_fence
            return self._words(text, indent + len(_FENCE))
        openings = [] if self._in_fence else self._opening
        if TOOL_CALL in openings and (
            piece := self._call_start(rest, indent, final=final)
        ):
            return piece
        if THINK in openings and self._at_answer_start and rest.startswith(THINK):
            return Piece(PieceKind.THINK_START, indent + len(THINK))
        may_become = any(opening.startswith(rest) for opening in (_FENCE, *openings))
        return _UNDECIDED if may_become and not final else None

    def _call_start(self, rest: str, indent: int, *, final: bool) -> Piece | None:
        """Find a call at the beginning of a line, whole or cut short by the end of the answer."""
        if final and len(rest) > _LEAST_CUT_SHORT and TOOL_CALL.startswith(rest):
            return Piece(PieceKind.CALL_START, indent + len(rest))
        if not rest.startswith(TOOL_CALL):
            return None
        behind = rest[len(TOOL_CALL) :].lstrip()
        if behind.startswith(CALL_BEGINNINGS) or (final and _may_become_call(behind)):
            return Piece(PieceKind.CALL_START, indent + len(TOOL_CALL))
        return _UNDECIDED if _may_become_call(behind) else None

    def _within_line(self, text: str, *, final: bool) -> Piece:
        """Take words up to the end of the line, or a closing tag that closes nothing and is not quoted."""
        found = (
            re.search("\n", text)
            if self._in_fence
            else self._closing_or_newline.search(text)
        )
        if found is None:
            kept = (
                0
                if final
                else max(
                    (unfinished_length(text, closing) for closing in self._closing),
                    default=0,
                )
            )
            return (
                self._words(text, len(text) - kept) if kept < len(text) else _UNDECIDED
            )
        if found[0] == "\n":
            piece = self._words(text, found.end())
            self._at_line_start = True
            return piece
        if (text[found.start() - 1] if found.start() else self._last_character) == "`":
            return self._words(text, found.end())
        return (
            self._words(text, found.start())
            if found.start()
            else Piece(PieceKind.STRAY_END, len(found[0]))
        )

    def _words(self, text: str, length: int) -> Piece:
        self._at_line_start = False
        self._at_answer_start = self._at_answer_start and text[:length].isspace()
        self._last_character = text[length - 1]
        return Piece(PieceKind.WORDS, length)


def unfinished_length(text: str, pattern: str) -> int:
    """How long the longest end of `text` is with which `pattern` may be beginning, without being whole."""
    longest = min(len(text), len(pattern) - 1)
    return next(
        (
            length
            for length in range(longest, 0, -1)
            if pattern.startswith(text[-length:])
        ),
        0,
    )


def _may_become_call(text: str) -> bool:
    return any(beginning.startswith(text) for beginning in CALL_BEGINNINGS)

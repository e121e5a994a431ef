"""From token ids to text, one token at a time, never half a character.

Knows nothing of what the text means.
"""

import codecs
from collections.abc import Iterable
import re
from typing import NamedTuple

from .markup_scanner import unfinished_length
from .tokenizer import Tokenizer

# A byte that belongs to no character is kept as a surrogate until everything is replaced: it separates its neighbours.
_NO_CHARACTER = re.compile("[\udc80-\udcff]")


class Fragment(NamedTuple):
    """A stretch of an answer: text, or one control token by its name."""

    text: str
    is_control: bool = False


class Detokenizer:
    """Decodes one answer. Bytes that form no character are left out, also at the end.

    Typical sequence for a sofa and a capital: push(F0 9F 9B) -> [], push(8B) -> ["🛋"], push("⇧") -> [],
    push("a") -> ["A"], flush() -> [].
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Start an answer."""
        self._tokenizer = tokenizer
        self._controls = {token.id: token for token in tokenizer.control_tokens}
        self._characters = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._replacements = [
            _StreamingReplace(*replacement) for replacement in tokenizer.replacements
        ]

    def push(self, token_id: int) -> list[Fragment]:
        """Add one token; returns what is certain now. An id without a token adds nothing."""
        control = self._controls.get(token_id)
        if control is not None and control.can_be_guarded:
            return [*self.flush(), Fragment(control.text, is_control=True)]
        token_bytes = (
            control.text.encode() if control else self._tokenizer.token_bytes(token_id)
        )
        return self._text(self._characters.decode(token_bytes), final=False)

    def flush(self) -> list[Fragment]:
        """Give out what was held back; an unfinished character is dropped."""
        self._characters.reset()
        return self._text("", final=True)

    def _text(self, text: str, *, final: bool) -> list[Fragment]:
        for replacement in self._replacements:
            text = replacement.push(text, final=final)
        text = _NO_CHARACTER.sub("", text)
        return [Fragment(text)] if text else []


class _StreamingReplace:
    """Replaces a pattern in a stream of text; holds back what may still become the pattern."""

    def __init__(self, pattern: str, content: str) -> None:
        self._pattern = pattern
        self._content = content
        self._held = ""

    def push(self, text: str, *, final: bool) -> str:
        *whole, rest = (self._held + text).split(self._pattern)
        kept = 0 if final else unfinished_length(rest, self._pattern)
        self._held = rest[len(rest) - kept :]
        return self._content.join((*whole, rest[: len(rest) - kept]))


def spell(tokenizer: Tokenizer, token_ids: Iterable[int]) -> str:
    """Return what tokens spell, control tokens by their names."""
    detokenizer = Detokenizer(tokenizer)
    pieces = [piece for token_id in token_ids for piece in detokenizer.push(token_id)]
    return "".join(text for text, _ in [*pieces, *detokenizer.flush()])

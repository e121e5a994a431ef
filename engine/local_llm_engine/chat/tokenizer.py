"""From rendered text to token ids, exactly as the model's own tokenizer.json has it, and back to bytes.

The control tokens are taken out of the tokenizer: plain text can then never become one. Knows nothing of
templates or messages.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from local_llm_engine.errors import (
    ChatTemplateError,
    InvalidRequestError,
    in_one_line,
    shown,
)

from .added_tokens import control_tokens
from .byte_level import bytes_of_token, decoder_replacements
from .control_text import ControlSpan, ControlText, RenderedText, readable
from .encoder import build_encoder, encode
from .model_files import (
    MAX_TOKENIZER_BYTES,
    read_json_object,
    read_optional_json_object,
)

# Every prompt of a house begins with the same long stretches, and tokenizing them takes most of the time that a
# prompt takes: those that were seen last are kept. A house's 5,000 tokens are two stretches of 20 kB each.
_LONG_STRETCH = 1000
_KEPT_STRETCHES = 32


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The tokens of a rendered text; `ends` has the character position after each token, never descending.

    All tokens of one character end at the same position.
    """

    token_ids: tuple[int, ...]
    ends: tuple[int, ...]

    def tokens_before(self, position: int) -> int:
        """How many whole tokens lie entirely before this character position."""
        return bisect_right(self.ends, position)

    def tokens_covering(self, position: int) -> int:
        """How many whole tokens it takes to hold all characters before this position."""
        count = self.tokens_before(position)
        if (
            position == 0
            or (count and self.ends[count - 1] == position)
            or count == len(self.ends)
        ):
            return count
        return self.tokens_before(self.ends[count])


class Tokenizer:
    """A byte-level BPE tokenizer whose control tokens stand only where they are told to; thread-safe.

    `num_ids` is one more than the highest token id.
    """

    def __init__(
        self, specification: Mapping[str, Any], added: Mapping[str, Any] | None = None
    ) -> None:
        """Build it from the content of a tokenizer.json.

        Args:
            specification: the JSON object.
            added: tokenizer_config.json's `added_tokens_decoder`: tokens that tokenizer.json may lack.

        Raises:
            ChatTemplateError: it is no byte-level BPE tokenizer, or plain text would become a control token.
        """
        self.control_tokens = control_tokens(specification, added or {})
        self.control_text = ControlText(self.control_tokens)
        self.replacements = decoder_replacements(specification.get("decoder"))
        self._encoder = build_encoder(specification)
        self._encode_long = lru_cache(maxsize=_KEPT_STRETCHES)(self._encode_plain)
        self._refuse_spelled_control_tokens()
        self._control_ids = {token.text: token.id for token in self.control_tokens}
        known_ids = (*self._encoder.get_vocab().values(), *self._control_ids.values())
        self.num_ids = max(known_ids, default=-1) + 1

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read tokenizer.json of a model folder.

        Raises:
            ChatTemplateError: the file is missing, damaged or of an unknown kind; the message names it.
        """
        path = folder / "tokenizer.json"
        added = read_optional_json_object(folder / "tokenizer_config.json").get(
            "added_tokens_decoder"
        )
        try:
            return cls(
                read_json_object(path, MAX_TOKENIZER_BYTES),
                added if isinstance(added, dict) else None,
            )
        except ChatTemplateError as err:
            raise (
                err if str(path) in str(err) else ChatTemplateError(f"{path}: {err}")
            ) from err
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as err:
            raise ChatTemplateError(
                f"{path} is not laid out as a tokenizer: {type(err).__name__}: {in_one_line(err)}"
            ) from err

    def token_id(self, text: str) -> int | None:
        """Look up the token with this name."""
        if text in self._control_ids:
            return self._control_ids[text]
        if readable(text) != text:
            return None
        found: int | None = self._encoder.token_to_id(text)
        return found

    def has_token_with(self, text: str) -> bool:
        """Whether a plain token holds this text, of printable ASCII."""
        return any(text in name for name in self._encoder.get_vocab())

    def token_bytes(self, token_id: int) -> bytes:
        """Look up the bytes that a plain token stands for; none for an id without a token."""
        name = self._encoder.id_to_token(token_id)
        if name is None:
            return b""
        return bytes_of_token(name)

    def tokens_bytes(self, num_tokens: int) -> list[bytes]:
        """List the bytes of the first `num_tokens` tokens; those of a control token are its name's."""
        found = [b""] * num_tokens
        for name, token_id in self._encoder.get_vocab().items():
            found[token_id] = bytes_of_token(name)
        for token in self.control_tokens:
            found[token.id] = token.text.encode()
        return found

    def plain_ids(self, text: str) -> list[int]:
        """Tokenize text in which nothing is a control token."""
        return list(self._encode_plain(text)[0])

    def respell(self, text: str) -> str:
        """Write a text in the characters of its tokens, where these are read as the same text again.

        Some tokenizers write a capital as a mark and the small letter. Others compose characters, which changes
        the text; then it stays as it is. Always `readable`, as in the prompt.
        """
        text = readable(text)
        if not self.replacements:
            return text
        spelled = b"".join(map(self.token_bytes, self.plain_ids(text))).decode(
            errors="replace"
        )
        read = spelled
        for pattern, content in self.replacements:
            read = read.replace(pattern, content)
        return spelled if read == text else text

    def encode(self, rendered: RenderedText) -> EncodedText:
        """Tokenize what a template wrote: control tokens where it wrote them, plain text between."""
        token_ids: list[int] = []
        ends: list[int] = []
        done = 0
        for span in (*rendered.controls, None):
            stretch = rendered.text[done : span.start if span else None]
            if stretch:
                encode = (
                    self._encode_plain
                    if len(stretch) < _LONG_STRETCH
                    else self._encode_long
                )
                stretch_ids, stretch_ends = encode(stretch)
                token_ids += stretch_ids
                ends += [done + end for end in stretch_ends]
            if span:
                token_ids.append(span.token_id)
                ends.append(span.end)
                done = span.end
        return EncodedText(tuple(token_ids), tuple(accumulate(ends, max)))

    def common_tokens(
        self,
        rendered: RenderedText,
        encoded: EncodedText,
        other: RenderedText,
        start: int = 0,
    ) -> int:
        """How many tokens at the front of `rendered` the tokens of `other` share.

        Only the stretch in which the texts part is tokenized again.

        Args:
            rendered: a text.
            encoded: its tokens.
            other: another text that is the same up to `start`, without what is before that.
            start: where in `rendered` the other begins: at its beginning, or where a control token begins.
        """
        shared = start + common_length(
            rendered.text[start : start + len(other.text)], other.text
        )
        first = bisect_left(rendered.controls, start, key=lambda span: span.start)
        anchor = start
        for span, other_span in zip(
            islice(rendered.controls, first, first + len(other.controls)),
            other.controls,
            strict=False,
        ):
            if span != _moved(other_span, start) or span.end > shared:
                break
            anchor = span.end
        after = [span for span in other.controls if span.start + start >= anchor][:1]
        end = after[0].end if after else len(other.text)
        tail = RenderedText(
            other.text[anchor - start : end],
            tuple(_moved(span, start - anchor) for span in after),
            {},
        )
        other_ids = self.encode(tail).token_ids
        count = encoded.tokens_before(anchor)
        for token_id, other_id in zip(
            encoded.token_ids[count : count + len(other_ids)], other_ids, strict=False
        ):
            if token_id != other_id:
                break
            count += 1
        return count

    def _encode_plain(self, text: str) -> tuple[array[int], array[int]]:
        """Tokenize text without control tokens: ids, and the character position after each token."""
        encoding = encode(self._encoder, text)
        return array("I", encoding.ids), array(
            "I", [end for _, end in encoding.offsets]
        )

    def _refuse_spelled_control_tokens(self) -> None:
        """Make sure that no plain text can become a control token."""
        for token in self.control_tokens:
            try:
                ids = encode(self._encoder, token.text).ids
            except InvalidRequestError as err:
                raise ChatTemplateError(
                    f"the control token {shown(token.text)} cannot be read: {err}"
                ) from err
            if token.can_be_guarded and token.id in ids:
                raise ChatTemplateError(
                    f"plain text would become the control token {shown(token.text)}"
                )


def _moved(span: ControlSpan, distance: int) -> ControlSpan:
    return ControlSpan(span.start + distance, span.end + distance, span.token_id)


def common_length(first: str, second: str) -> int:
    """How many characters two texts share at the front."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

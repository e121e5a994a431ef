"""Answers drawn at random from what a guide allows, and answers spelled out against it."""

from collections.abc import Sequence
from dataclasses import dataclass
import random

import numpy as np

from local_llm_engine.chat import ChatFormat
from local_llm_engine.chat.guide import AnswerGuide, CallGuide
from local_llm_engine.types import ChatRequest, Delta, Message, ToolSpec

# What ends a string, a value or a list: without a liking for it, few walks would come to an end.
_TAG = b"\n</parameter>\n"
_CLOSING = (b'"', b"}", b"]")
_LIKING = 0.3
_FIRMNESS = 0.95


@dataclass(frozen=True)
class Walk:
    """An answer: its deltas, and whether it came to its end."""

    deltas: Sequence[Delta]
    has_ended: bool


def asking(**fields: object) -> ChatRequest:
    """A request with a question nobody needs."""
    return ChatRequest(messages=(Message(role="user", content="Hello?"),), **fields)  # type: ignore[arg-type]


def calling(*tools: ToolSpec) -> ChatRequest:
    """A request with tools."""
    return asking(tools=tools)


def control(chat: ChatFormat, text: str) -> int:
    """The id of a control token."""
    token_id = chat._tokenizer.token_id(text)
    assert token_id is not None
    return token_id


def token_ids(chat: ChatFormat, text: str) -> list[int]:
    """Tokenize text as a model would write it, its markup as control tokens where there are any."""
    rendered = chat._tokenizer.control_text.read(text)
    return list(chat._tokenizer.encode(rendered).token_ids)


def allowed_ids(mask: bytes) -> list[int]:
    """The tokens that a mask allows."""
    bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
    return np.flatnonzero(bits).tolist()


def draw(
    chat: ChatFormat,
    request: ChatRequest,
    seed: int,
    beginning: str = "",
    most_tokens: int = 600,
) -> Walk:
    """Draw an answer, after this beginning, until nothing holds it any more or it ends."""
    rng = random.Random(seed)
    guide = chat.guide(request)
    assert guide is not None
    decoder = chat.decoder(request)
    deltas: list[Delta] = []
    written = b""
    for token_id in token_ids(chat, beginning):
        guide.accept(token_id)
        deltas += decoder.feed(token_id)
    ids_of = {
        token: index
        for index, token in enumerate(chat._tokenizer.tokens_bytes(chat.vocab_size))
    }
    for _ in range(most_tokens):
        mask = guide.allowed()
        if mask is None:
            return Walk([*deltas, *decoder.finish()], has_ended=True)
        ids = allowed_ids(mask)
        begun = _begun_length(written)
        liked = (
            *(_TAG[begun:end] for end in range(begun + 1, len(_TAG) + 1)),
            *_CLOSING,
        )
        closing = sorted({ids_of.get(token) for token in liked} & set(ids))
        liking = _FIRMNESS if begun > 1 else _LIKING
        token_id = rng.choice(closing if closing and rng.random() < liking else ids)
        if token_id in chat.end_token_ids:
            return Walk([*deltas, *decoder.finish()], has_ended=True)
        guide.accept(token_id)
        written += chat._tokenizer.token_bytes(token_id)
        deltas += decoder.feed(token_id)
    return Walk([*deltas, *decoder.finish()], has_ended=False)


def _begun_length(written: bytes) -> int:
    """How much of the closing tag stands at the end."""
    return max(length for length in range(len(_TAG)) if written.endswith(_TAG[:length]))


def refused_at(chat: ChatFormat, request: ChatRequest, answer: str) -> str | None:
    """What of an answer, to its end, the guide does not allow; None where it allows all of it."""
    guide = chat.guide(request)
    assert guide is not None
    written = ""
    for token_id in token_ids(chat, answer):
        mask = guide.allowed()
        written += _name(chat, token_id)
        if mask is not None and token_id not in allowed_ids(mask):
            return written
        guide.accept(token_id)
    return None if can_end(chat, guide) else f"{written} and its end"


def can_end(chat: ChatFormat, guide: CallGuide | AnswerGuide) -> bool:
    """Whether the answer may end here."""
    mask = guide.allowed()
    return mask is None or chat.end_token_ids <= set(allowed_ids(mask))


def _name(chat: ChatFormat, token_id: int) -> str:
    names = {token.id: token.text for token in chat._tokenizer.control_tokens}
    return names.get(token_id) or chat._tokenizer.token_bytes(token_id).decode(
        errors="replace"
    )

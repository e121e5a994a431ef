"""The tokens that are added to a vocabulary and stand for themselves, as the files of a tokenizer name them.

Knows nothing of where they may stand.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from local_llm_engine.errors import ChatTemplateError, shown

from .control_text import ControlToken, readable

# The largest published vocabularies have a tenth of it.
_MAX_SOUGHT_CHARACTERS = 10_000_000


def control_tokens(
    specification: Mapping[str, Any], added: Mapping[str, Any]
) -> tuple[ControlToken, ...]:
    """Read those of a tokenizer.json, and those that only tokenizer_config.json names.

    Raises:
        ChatTemplateError: one of them cannot be sought in a text, or all of them together.
    """
    tokens = tuple(
        _control_token(entry) for entry in _added_tokens(specification, added)
    )
    _require_short(tokens)
    return tokens


def _added_tokens(
    specification: Mapping[str, Any], added: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Collect the added tokens of tokenizer.json, and those that only tokenizer_config.json names."""
    entries = [dict(entry) for entry in specification.get("added_tokens") or ()]
    known = {entry["content"] for entry in entries}
    entries += [
        {**entry, "id": int(token_id)}
        for token_id, entry in added.items()
        if entry["content"] not in known
    ]
    return entries


def _require_short(tokens: Sequence[ControlToken]) -> None:
    """Refuse more than can be sought: all heads and tails of all of them stand in the patterns."""
    if sum(len(token.text) ** 2 for token in tokens) > _MAX_SOUGHT_CHARACTERS:
        longest = max(len(token.text) for token in tokens)
        raise ChatTemplateError(
            f"there are {len(tokens)} added tokens of up to {longest} characters, more than can be sought in a text"
        )


def _control_token(entry: Mapping[str, Any]) -> ControlToken:
    if entry.get("single_word"):
        raise ChatTemplateError(
            f"the added token {shown(entry['content'])} counts only as a whole word, which is not supported"
        )
    text = entry["content"]
    if readable(text) != text:
        raise ChatTemplateError(
            f"the added token {shown(text)} holds half a character, which no text does"
        )
    return ControlToken(
        id=int(entry["id"]),
        text=text,
        lstrip=bool(entry.get("lstrip")),
        rstrip=bool(entry.get("rstrip")),
    )

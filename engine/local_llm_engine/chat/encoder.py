"""Has the tokenizers library build what a tokenizer.json says, without control tokens; it refuses in words all that it cannot.

Knows the library's ways of failing; knows nothing of what the tokenizer is for.
"""

from collections.abc import Mapping
import json
from typing import Any

from tokenizers import Encoding, Tokenizer as Encoder

from local_llm_engine.errors import (
    ChatTemplateError,
    InvalidRequestError,
    in_one_line,
    shown,
)

_PANIC = "PanicException"
# Of one stretch of text, in bytes. The library takes some 200 bytes of memory for each while it works; 262,144
# tokens of English are about 1.2 MB.
_MAX_STRETCH_BYTES = 2_000_000

# What the tokenizer must not do on its own: find control tokens, shift offsets, cut or fill up.
_WITHOUT: dict[str, Any] = {
    "added_tokens": [],
    "post_processor": None,
    "truncation": None,
    "padding": None,
}


def build_encoder(specification: Mapping[str, Any]) -> Encoder:
    """Build a tokenizer.

    Raises:
        ChatTemplateError: the library cannot, or would end the process.
    """
    model = specification.get("model")
    _require_whole_words(model)
    built = {**specification, **_WITHOUT}
    if isinstance(model, dict):
        # Merges left out at random are for training (BPE-dropout); the same text must become the same tokens here.
        built["model"] = {**model, "dropout": None}
    try:
        return Encoder.from_str(json.dumps(built))
    except BaseException as err:  # the library raises nothing more precise
        _require_of_library(err)
        raise ChatTemplateError(
            f"the tokenizer cannot be built: {in_one_line(err)}"
        ) from err


def _require_whole_words(model: Any) -> None:
    """Refuse what byte-level BPE has no use for, and what ends the process where it splits a character."""
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        affix = model.get(name) if isinstance(model, dict) else None
        if affix:
            raise ChatTemplateError(
                f"only byte-level BPE tokenizers are supported; this one's {name} is {shown(affix)}, not empty"
            )


def encode(encoder: Encoder, text: str) -> Encoding:
    """Tokenize a text.

    Raises:
        InvalidRequestError: it is longer than any prompt; or the library gives up on it, as for a pattern that would
            look at the text for ever.
    """
    size = len(text.encode()) if len(text) > _MAX_STRETCH_BYTES // 4 else 0
    if size > _MAX_STRETCH_BYTES:
        raise InvalidRequestError(
            f"a text of {size:,} bytes is too long for a prompt; at most {_MAX_STRETCH_BYTES:,} can be read at once"
        )
    try:
        return encoder.encode(text, add_special_tokens=False)
    except BaseException as err:
        _require_of_library(err)
        raise InvalidRequestError(
            "the model's tokenizer gives up on these words"
        ) from err


def _require_of_library(err: BaseException) -> None:
    """Pass on what is not the library's.

    Where it gives up on itself, for merges that make more than any token among others, it raises what is no
    Exception, and has no name that could be imported.
    """
    if not isinstance(err, Exception) and type(err).__name__ != _PANIC:
        raise err

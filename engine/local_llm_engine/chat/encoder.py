"""Has the tokenizers library build what a tokenizer.json says, without control tokens; it refuses in words all that it cannot.

Knows the library's ways of failing; knows nothing of what the tokenizer is for.
"""

from collections.abc import Mapping
import json
from typing import Any

from tokenizers import Encoding, Tokenizer as Encoder

from local_llm_engine.errors import ChatTemplateError, InvalidRequestError, in_one_line

_PANIC = "PanicException"

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
        ChatTemplateError: the library cannot.
    """
    try:
        return Encoder.from_str(json.dumps({**specification, **_WITHOUT}))
    except BaseException as err:  # the library raises nothing more precise
        _require_of_library(err)
        raise ChatTemplateError(
            f"the tokenizer cannot be built: {in_one_line(err)}"
        ) from err


def encode(encoder: Encoder, text: str) -> Encoding:
    """Tokenize a text.

    Raises:
        InvalidRequestError: the library gives up on it, as for a pattern that would look at the text for ever.
    """
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

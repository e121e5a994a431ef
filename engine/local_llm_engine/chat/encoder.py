"""Has the tokenizers library build what a tokenizer.json says, without control tokens; it refuses in words all that it cannot.

Knows the library's ways of failing; knows nothing of what the tokenizer is for.
"""

from collections.abc import Mapping
import json
from typing import Any

from tokenizers import Tokenizer as Encoder

from local_llm_engine.errors import ChatTemplateError, in_one_line

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
        # Where it gives up on itself, for merges that make more than any token among others, it raises what is
        # no Exception, and has no name that could be imported.
        if not isinstance(err, Exception) and type(err).__name__ != _PANIC:
            raise
        raise ChatTemplateError(
            f"the tokenizer cannot be built: {in_one_line(err)}"
        ) from err

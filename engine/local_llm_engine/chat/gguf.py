"""What the chat room needs of a model that is one GGUF file: template, tokenizer and the tokens that end an answer.

Knows llama.cpp's keys; knows no weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_llm_engine.errors import ChatTemplateError, shown
from local_llm_engine.weights.gguf_header import read_gguf_header

from .gguf_tokenizer import token_texts, tokenizer_specification
from .template import ChatTemplate
from .tokenizer import Tokenizer

_TEMPLATE = "tokenizer.chat_template"
_TOOL_TEMPLATE = f"{_TEMPLATE}.tool_use"
_PREFIX = "tokenizer.ggml."
_NAMED_IN_TEMPLATES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",
    "pad_token": "padding_token_id",
    "mask_token": "mask_token_id",
}
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
# A file names one end at most of each kind, and often that of the model before it was taught to chat.
_KNOWN_ENDS = frozenset(
    ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufChat:
    """The parts of a `ChatFormat`."""

    template: ChatTemplate
    tokenizer: Tokenizer
    end_token_ids: frozenset[int]
    vocab_size: int


def read_gguf_chat(file: Path) -> GgufChat:
    """Read everything from the file's metadata.

    Raises:
        WeightFormatError: the file is damaged.
        ChatTemplateError: a part is missing, or cannot be used; the message names it.
    """
    header = read_gguf_header(file)
    embedding = header.tensors.get("token_embd.weight")
    try:
        return _chat(header.metadata, embedding.shape[0] if embedding else 0)
    except ChatTemplateError as err:
        raise ChatTemplateError(f"{file}: {err}") from err


def _chat(metadata: Mapping[str, Any], vocab_size: int) -> GgufChat:
    tokenizer = Tokenizer(tokenizer_specification(metadata))
    texts = token_texts(metadata)
    if len(texts) > vocab_size:
        raise ChatTemplateError(
            f"{_PREFIX}tokens has {len(texts)} elements; token_embd.weight has {vocab_size} rows"
        )
    return GgufChat(
        template=_template(metadata, texts),
        tokenizer=tokenizer,
        end_token_ids=_end_token_ids(metadata, tokenizer, len(texts)),
        vocab_size=vocab_size,
    )


def _template(metadata: Mapping[str, Any], texts: tuple[str, ...]) -> ChatTemplate:
    source, tool_source = metadata.get(_TEMPLATE), metadata.get(_TOOL_TEMPLATE)
    if not isinstance(source, str):
        raise ChatTemplateError(
            f"has no chat template ({_TEMPLATE}), so nobody can tell how the model wants to be asked; "
            "right is a file of a model that was taught to chat"
        )
    ids = {
        name: _token_id(metadata, key, len(texts))
        for name, key in _NAMED_IN_TEMPLATES.items()
    }
    return ChatTemplate(
        source,
        tool_source=tool_source if isinstance(tool_source, str) else None,
        special_tokens={
            name: texts[token_id]
            for name, token_id in ids.items()
            if token_id is not None
        },
    )


def _end_token_ids(
    metadata: Mapping[str, Any], tokenizer: Tokenizer, num_tokens: int
) -> frozenset[int]:
    """All tokens that the file names as an end, and those that are known to be one."""
    named = {_token_id(metadata, key, num_tokens) for key in _ENDS}
    known = {
        token.id for token in tokenizer.control_tokens if token.text in _KNOWN_ENDS
    }
    found = frozenset(token_id for token_id in named | known if token_id is not None)
    if not found:
        raise ChatTemplateError(
            f"names no token that ends an answer ({_PREFIX}eos_token_id)"
        )
    return found


def _token_id(metadata: Mapping[str, Any], key: str, num_tokens: int) -> int | None:
    token_id = metadata.get(_PREFIX + key)
    if token_id is None or (type(token_id) is int and 0 <= token_id < num_tokens):
        return token_id
    raise ChatTemplateError(
        f"{_PREFIX}{key} is {shown(token_id)}; ids are whole numbers below {num_tokens}"
    )

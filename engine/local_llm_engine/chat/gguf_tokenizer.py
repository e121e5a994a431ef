"""Writes the tokenizer that a GGUF file's metadata describes as the tokenizer.json that its model was published with.

Knows how each family cuts text into words before byte pairs are merged; knows nothing of templates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from local_llm_engine.errors import ChatTemplateError, shown

_PREFIX = "tokenizer.ggml."
_KIND = "gpt2"
# Kinds of tokens, as the file numbers them: those that only templates write, those of their own that are
# found in text too, and places that no token has.
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5

_DIGITS_ONE_BY_ONE = {"type": "Digits", "individual_digits": True}
_SPELL_BYTES = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}
# The cutting of GPT-2, which the byte level itself does.
_CUT_AS_GPT2 = {**_SPELL_BYTES, "use_regex": True}
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cutting:
    """How text is cut; `whole_words` takes a word that is a token itself as it is, whatever the merges say."""

    steps: Sequence[Mapping[str, Any]]
    normalizer: Mapping[str, Any] | None = None
    whole_words: bool = False


def _cut_by(pattern: str) -> tuple[Mapping[str, Any], ...]:
    cut = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return (cut, _SPELL_BYTES)


def _word_pattern(letters: str, digits: str) -> str:
    """Write the pattern of GPT-4's family: what makes a word, and how many digits stay together."""
    return (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}{digits}"
        rf"| ?[^\s{letters.strip('[]')}\p{{N}}]+[\r\n]*|{_SPACES}"
    )


_NFC = {"type": "NFC"}
_QWEN2 = _Cutting(steps=_cut_by(_word_pattern(r"\p{L}", "")), normalizer=_NFC)
_LLAMA3 = _Cutting(steps=_cut_by(_word_pattern(r"\p{L}", "{1,3}")), whole_words=True)
_CUTTINGS: Mapping[str, _Cutting] = MappingProxyType(
    {
        "deepseek-r1-qwen": _QWEN2,
        "gpt-2": _Cutting(steps=(_CUT_AS_GPT2,)),
        "llama-bpe": _LLAMA3,
        "llama-v3": _LLAMA3,
        "llama3": _LLAMA3,
        "qwen2": _QWEN2,
        "qwen35": _Cutting(
            steps=_cut_by(_word_pattern(r"[\p{L}\p{M}]", "")), normalizer=_NFC
        ),
        "smollm": _Cutting(steps=(_DIGITS_ONE_BY_ONE, _CUT_AS_GPT2)),
    }
)


def tokenizer_specification(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Write a file's tokenizer as the JSON object of a tokenizer.json.

    Raises:
        ChatTemplateError: it is of another kind, a part is missing, or the parts do not fit together.
    """
    kind = metadata.get(f"{_PREFIX}model")
    if kind != _KIND:
        what = " (SentencePiece)" if kind == "llama" else ""
        raise ChatTemplateError(
            f"{_PREFIX}model is {shown(kind)}{what}; supported is {_KIND!r}, which merges byte pairs"
        )
    name = metadata.get(f"{_PREFIX}pre")
    cutting = _CUTTINGS.get(name) if isinstance(name, str) else None
    if cutting is None:
        raise ChatTemplateError(
            f"{_PREFIX}pre is {shown(name)}, so nobody can tell how text is cut into words; known are {', '.join(_CUTTINGS)}"
        )
    tokens = token_texts(metadata)
    kinds = _list(metadata, "token_type", int)
    if len(kinds) != len(tokens):
        raise ChatTemplateError(
            f"{_PREFIX}token_type has {len(kinds)} elements; the vocabulary has {len(tokens)}"
        )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(_added(tokens, kinds)),
        "normalizer": cutting.normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(cutting.steps)},
        "post_processor": None,
        "decoder": {**_SPELL_BYTES, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": cutting.whole_words,
            "vocab": _vocabulary(tokens, kinds),
            "merges": list(_merges(_list(metadata, "merges", str))),
        },
    }


def token_texts(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text of every token, by its id.

    Raises:
        ChatTemplateError: there is no list of texts.
    """
    return _list(metadata, "tokens", str)


def _list[T](metadata: Mapping[str, Any], key: str, kind: type[T]) -> tuple[T, ...]:
    values = metadata.get(_PREFIX + key)
    if not isinstance(values, tuple) or not all(
        type(value) is kind for value in values
    ):
        problem = "is missing" if values is None else "is of another kind"
        right = "strings" if kind is str else "whole numbers"
        raise ChatTemplateError(
            f"{_PREFIX}{key} {problem}; right is an array of {right}"
        )
    return values


def _vocabulary(tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, int]:
    apart = (_CONTROL, _USER_DEFINED, _UNUSED)
    plain = [
        (token, index)
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind not in apart
    ]
    vocabulary = dict(plain)
    if len(vocabulary) != len(plain):
        token = next(token for token, index in plain if vocabulary[token] != index)
        raise ChatTemplateError(
            f"{_PREFIX}tokens holds {token[:60]!r} twice; each token may stand once"
        )
    return vocabulary


def _added(tokens: Iterable[str], kinds: Iterable[int]) -> Iterable[dict[str, Any]]:
    """List the tokens that are no part of any word."""
    for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind in (_CONTROL, _USER_DEFINED):
            yield {
                "id": index,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": kind == _CONTROL,
            }


def _merges(merges: Iterable[str]) -> Iterable[list[str]]:
    for merge in merges:
        first, space, second = merge.partition(" ")
        if not first or not space or not second:
            raise ChatTemplateError(
                f"{_PREFIX}merges holds {merge[:60]!r}; right are two tokens with a space between"
            )
        yield [first, second]

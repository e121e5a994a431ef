"""Makes nano's tokenizer: byte-level pairs over lower case, where a capital is a mark before its small letter.

So a word is the same token however it is written and wherever it stands, which is what makes names easy to copy.
Fixed phrases of prompts and calls are one token each.
"""

from collections.abc import Iterable
import json
from pathlib import Path
import re
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from .phrases import phrases

CONTROL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
END_OF_TEXT = CONTROL_TOKENS.index("<|endoftext|>")
END_OF_TURN = CONTROL_TOKENS.index("<|im_end|>")
VOCABULARY_SIZE = 2560
_MARK = "⇧"
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZÀÁÂÄÇÈÉÊËÌÍÎÏÑÒÓÔÖÙÚÛÜ"
_WORDS = rf" ?{_MARK}| |\p{{N}}|\p{{L}}+|[^\s\p{{L}}\p{{N}}{_MARK}]+|\s+"


def build_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learn the pairs of these texts; the fixed phrases in them are left out of it."""
    marked = [_marked(phrase) for phrase in phrases()]
    gaps = re.compile("|".join(map(re.escape, marked)))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _pre_tokenizer(_WORDS)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - len(CONTROL_TOKENS) - len(marked) - 8,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        (gap for text in texts for gap in gaps.split(_marked(text)) if gap), trainer
    )
    learned = json.loads(tokenizer.to_str())["model"]
    return _with_phrases(learned, marked)


def _with_phrases(learned: dict[str, Any], marked: list[str]) -> Tokenizer:
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    names = list(CONTROL_TOKENS)
    names += [
        name for name, _ in sorted(learned["vocab"].items(), key=lambda entry: entry[1])
    ]
    for phrase in marked:
        ((name, _),) = bytewise.pre_tokenize_str(phrase)
        if name not in names:
            names.append(name)
    names += [f"<|spare_{index}|>" for index in range(VOCABULARY_SIZE - len(names))]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={name: index for index, name in enumerate(names)},
            merges=[tuple(pair) for pair in learned["merges"]],
            ignore_merges=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(capital, _marked(capital)) for capital in _CAPITALS]
    )
    tokenizer.pre_tokenizer = _pre_tokenizer("|".join((*map(_escaped, marked), _WORDS)))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteLevel(),
            *(decoders.Replace(_marked(capital), capital) for capital in _CAPITALS),
        ]
    )
    tokenizer.add_special_tokens(list(CONTROL_TOKENS))
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write what Hugging Face's layout wants of a tokenizer."""
    specification = json.loads(tokenizer.to_str())
    for token in specification["added_tokens"]:
        token["normalized"] = False
    Path(folder, "tokenizer.json").write_text(
        json.dumps(specification, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


def _pre_tokenizer(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _marked(text: str) -> str:
    return "".join(
        _MARK + letter.lower() if letter in _CAPITALS else letter for letter in text
    )


def _escaped(text: str) -> str:
    """Escape for a regular expression of the tokenizers library."""
    return re.sub(r"([\\.^$|?*+()\[\]{}\-&~#])", r"\\\1", text).replace("\n", r"\n")

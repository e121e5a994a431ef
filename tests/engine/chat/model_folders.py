"""Model folders without a model: what the chat room reads of one."""

from collections.abc import Mapping
import json
from pathlib import Path
import shutil
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.processors import ByteLevel

from local_llm_engine.builtin import NANO_PATH

FIXTURES = Path(__file__).parent / "fixtures"
QWEN_TEMPLATE = FIXTURES / "qwen3.5_chat_template.jinja"
HERMES_TEMPLATE = FIXTURES / "hermes_chat_template.jinja"
KEEPS_THINKING_TEMPLATE = FIXTURES / "keeps_thinking_chat_template.jinja"

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>")
MARKUP_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)

# How Qwen3.5 cuts text before byte pairs are merged.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CORPUS = (
    "Turn on the lights in the kitchen. Turn off the ceiling light in the living room.",
    "Schalte das Licht im Büro ein. Åse, Bryn und Işık sind im Wohnzimmer. 寝室のライト",
    "<function=HassTurnOn>\n<parameter=name>\nFan\n</parameter>\n</function>\n\n",
    '{"name": "HassTurnOn", "description": "Turns on a device", "parameters": {}}',
    "system\nuser\nassistant\n\n\n tool_response im_start im_end think tool_call",
)


def qwen_like_tokenizer() -> Tokenizer:
    """Train a small byte-level BPE tokenizer that is set up as Qwen3.5's is."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(
        _CORPUS * 3,
        trainers.BpeTrainer(
            vocab_size=600,
            min_frequency=2,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.add_tokens(
        [AddedToken(text, normalized=False, special=True) for text in SPECIAL_TOKENS]
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in MARKUP_TOKENS])
    return tokenizer


def write_qwen_like_folder(folder: Path, template: Path = QWEN_TEMPLATE) -> Path:
    """Write a folder with a tokenizer and configuration like Qwen3.5's, and this template."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = qwen_like_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    shutil.copy(template, folder / "chat_template.jinja")
    write_json(folder / "tokenizer_config.json", {"eos_token": "<|im_end|>"})
    end = tokenizer.token_to_id("<|endoftext|>")
    write_json(
        folder / "config.json",
        {
            "text_config": {
                "vocab_size": tokenizer.get_vocab_size() + 10,
                "eos_token_id": end,
            }
        },
    )
    return folder


def copy_nano(folder: Path) -> Path:
    """Copy what the chat room reads of the built-in model."""
    names = (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(NANO_PATH / name, folder / name)
    return folder


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")

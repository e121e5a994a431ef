"""Makes the small sound models that fuzzers damage: every architecture and format, as their makers lay them out.

Run as a program, so that what makes them, and the memory it takes, is gone when the fuzzing begins.
"""

from collections.abc import Callable, Mapping
import json
from pathlib import Path
import shutil
import sys
from typing import Any

from gguf import GGMLQuantizationType as Type

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig, Weights
from local_llm_engine.models.registry import load_model
from tests.engine.chat.model_folders import (
    HERMES_TEMPLATE,
    KEEPS_THINKING_TEMPLATE,
    QWEN_TEMPLATE,
    copy_nano,
    qwen_like_tokenizer,
    write_qwen_like_folder,
)
from tests.engine.gguf_files import tokenizer_metadata, write_gguf
from tests.engine.models.checkpoints import tensors_of, write_checkpoint
from tests.engine.models.formats import publish_sized
from tests.engine.models.oracles import KINDS, make, publish
from tests.engine.models.test_quantization import WAYS, WHOLE_WORDS, write_quantized

# That of the tokenizer that they get: without it, all of them would be refused before they are read.
_VOCAB_SIZE: int = json.loads((NANO_PATH / "config.json").read_text())["vocab_size"]
_FEW = ("llama", "qwen3_5_moe_text", "qwen3_next")
_FORMATS = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.IQ4_NL)
_LARGE_FORMATS = (
    Type.Q2_K,
    Type.Q3_K,
    Type.Q4_K,
    Type.Q5_K,
    Type.Q6_K,
    Type.IQ4_XS,
)


def make_seeds(reader: str, folder: Path) -> None:
    """Write the models that a reader's fuzzer begins with into a folder."""
    folder.mkdir(parents=True)
    SEEDS[reader](folder)


def _with_chat(folder: Path) -> Path:
    """Add tokenizer and template to a folder of weights."""
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(NANO_PATH / name, folder / name)
    shutil.copyfile(QWEN_TEMPLATE, folder / "chat_template.jinja")
    return folder


def _safetensors(folder: Path) -> None:
    for kind in _FEW:
        made = make(kind, {"vocab_size": _VOCAB_SIZE})
        _with_chat(publish(folder / kind, kind, made))
    oracle = make("qwen3_5_text", {"vocab_size": _VOCAB_SIZE})
    config = {**oracle.config.to_dict(), "model_type": "qwen3_5_text"}
    _with_chat(
        write_checkpoint(folder / "shards", tensors_of(oracle), config, num_shards=3)
    )
    shutil.copytree(NANO_PATH, folder / "nano", ignore=_no_code)


def _no_code(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("__")]


def _config(folder: Path) -> None:
    for kind in KINDS:
        made = make(kind, {"vocab_size": _VOCAB_SIZE})
        _with_chat(publish(folder / kind, kind, made))
    shutil.copytree(NANO_PATH, folder / "nano", ignore=_no_code)


def _gguf(folder: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "linear_value_head_dim": 24}  # fmt: skip
    experts = {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 64}
    everywhere: dict[str, Any] = {"mlp_only_layers": []}
    for index, kind in enumerate(KINDS):
        own = everywhere if kind in {"qwen3_moe", "qwen3_next"} else {}
        stored_as = _FORMATS[index % len(_FORMATS)]
        _write_gguf(folder, kind, {**own, **sizes, **experts}, stored_as)
    large = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "head_dim": 64}  # fmt: skip
    for stored_as in _LARGE_FORMATS:
        _write_gguf(folder, "llama", large, stored_as)
    parts = folder / "parts"
    parts.mkdir()
    _write_gguf(parts, "llama", {"num_hidden_layers": 2}, Type.F32, tensors_a_part=8)


def _write_gguf(
    folder: Path,
    kind: str,
    fields: Mapping[str, Any],
    stored_as: Type,
    tensors_a_part: int = 0,
) -> None:
    tokenizer = tokenizer_metadata(
        qwen_like_tokenizer(), pre="qwen35", vocab_size=_VOCAB_SIZE
    )
    template = QWEN_TEMPLATE if "5" in kind else HERMES_TEMPLATE
    write_gguf(
        folder / f"{kind}-{stored_as.name}.gguf",
        kind,
        make(kind, {**fields, "vocab_size": _VOCAB_SIZE}),
        stored_as=stored_as,
        metadata={**tokenizer, "tokenizer.chat_template": template.read_text("utf-8")},
        tensors_a_part=tensors_a_part,
    )


def _tokenizer(folder: Path) -> None:
    copy_nano(folder / "nano")
    write_qwen_like_folder(folder / "qwen")


def _template(folder: Path) -> None:
    copy_nano(folder / "nano")
    for template in (QWEN_TEMPLATE, HERMES_TEMPLATE, KEEPS_THINKING_TEMPLATE):
        write_qwen_like_folder(folder / template.stem, template)


def _quantized(folder: Path) -> None:
    for way in WAYS:
        for kind in ("llama", "qwen3_5_text"):
            own = folder / f"{way}-{kind}"
            write_quantized(own, make(kind, {**WHOLE_WORDS, "vocab_size": _VOCAB_SIZE}), way)  # fmt: skip
            _with_chat(own)


def _kept(folder: Path) -> None:
    formats: tuple[Weights, ...] = ("int4", "int8")
    for weights in formats:
        own = publish_sized(folder / weights, "qwen3_5_text", vocab_size=_VOCAB_SIZE)
        _with_chat(own)
        load_model(own, EngineConfig(dtype="float32", weights=weights))


SEEDS: Mapping[str, Callable[[Path], None]] = {
    "safetensors": _safetensors,
    "gguf": _gguf,
    "config": _config,
    "tokenizer": _tokenizer,
    "template": _template,
    "quantized": _quantized,
    "kept": _kept,
}


if __name__ == "__main__":
    make_seeds(sys.argv[1], Path(sys.argv[2]))

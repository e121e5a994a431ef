"""Model folders: what loads, what is refused, and that inspecting refuses the same without reading weights."""

from collections.abc import Callable
from pathlib import Path
import re

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import Qwen3_5ForCausalLM

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.errors import ModelLoadError
from local_llm_engine.models.registry import inspect_model, load_model
from local_llm_engine.weights.safetensors import SafetensorsFolder

from .checkpoints import (
    FLOAT32,
    TEXT_CONFIG,
    make_oracle,
    random_tokens,
    refuses,
    tensors_of,
    write_checkpoint,
)

NESTED_CONFIG = {"model_type": "qwen3_5", "text_config": TEXT_CONFIG}
SKIPPED = {
    "model.visual.patch_embed.proj.weight": torch.zeros(3, 2, 2),
    "visual.merger.norm.weight": torch.zeros(5),
    "mtp.fc.weight": torch.zeros(4, 8),
    "mtp.layers.0.self_attn.q_proj.weight": torch.zeros(4, 4),
}

type Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def oracle() -> Qwen3_5ForCausalLM:
    return make_oracle()


@pytest.mark.parametrize("prefix", ["model.", "model.language_model."])
@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize(
    "config", [TEXT_CONFIG, NESTED_CONFIG], ids=["text config", "nested config"]
)
@pytest.mark.parametrize(
    "extra", [{}, SKIPPED], ids=["text alone", "with vision and multi-token prediction"]
)
def test_layouts(
    tmp_path: Path,
    oracle: Qwen3_5ForCausalLM,
    prefix: str,
    num_shards: int,
    config: dict[str, object],
    extra: Tensors,
) -> None:
    folder = write_checkpoint(
        tmp_path, tensors_of(oracle, prefix) | extra, config, num_shards
    )
    model = load_model(folder, FLOAT32)
    tokens = random_tokens(9)
    logits = model.logits(model.forward(tokens, model.new_state(16)))
    assert_close(logits, oracle(tokens[None]).logits[0], rtol=1e-4, atol=1e-4)
    assert model.summary == inspect_model(folder)
    assert model.summary.num_parameters == sum(
        tensor.numel() for tensor in tensors_of(oracle).values()
    )


def test_summary_of_the_built_in_model() -> None:
    summary = inspect_model(NANO_PATH)
    assert (summary.name, summary.architecture, summary.num_layers) == (
        "nano",
        "qwen3_5_text",
        6,
    )
    assert (summary.num_parameters, summary.weights_bytes) == (4_150_240, 8_300_480)
    assert (summary.context_length, summary.vocab_size) == (32_768, 2_560)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_stored_dtypes(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, dtype: torch.dtype
) -> None:
    stored = {name: tensor.to(dtype) for name, tensor in tensors_of(oracle).items()}
    model = load_model(write_checkpoint(tmp_path, stored), FLOAT32)
    tokens = random_tokens(9)
    logits = model.logits(model.forward(tokens, model.new_state(16)))
    assert_close(logits, oracle(tokens[None]).logits[0], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("shard", [1, 2, 3])
def test_missing_shard_is_named(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, shard: int
) -> None:
    folder = write_checkpoint(tmp_path, tensors_of(oracle), num_shards=3)
    missing = folder / f"model-{shard:05}-of-00003.safetensors"
    missing.unlink()
    refuses(folder, re.escape(f"{missing}: is missing"))


def test_stray_file_beside_shards_is_not_read(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM
) -> None:
    write_checkpoint(tmp_path, tensors_of(make_oracle(seed=1)))
    folder = write_checkpoint(tmp_path, tensors_of(oracle), num_shards=3)
    model = load_model(folder, FLOAT32)
    tokens = random_tokens(9)
    logits = model.logits(model.forward(tokens, model.new_state(16)))
    assert_close(logits, oracle(tokens[None]).logits[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(
            lambda content: content[:-1], "is cut short", id="cut by one byte"
        ),
        pytest.param(
            lambda content: content[: len(content) // 2],
            "is cut short",
            id="cut in half",
        ),
        pytest.param(
            lambda content: content + bytes(16),
            "has 16 bytes after its last tensor",
            id="16 bytes more",
        ),
        pytest.param(
            lambda _: b"version https://git-lfs.github.com/spec/v1\n",
            "is a Git LFS pointer",
            id="pointer",
        ),
        pytest.param(
            lambda content: (126 * 1024**2).to_bytes(8, "little") + content[8:],
            "claims a header",
            id="large header",
        ),
    ],
)
def test_damaged_file_is_named(
    tmp_path: Path,
    oracle: Qwen3_5ForCausalLM,
    damage: Callable[[bytes], bytes],
    problem: str,
) -> None:
    file = write_checkpoint(tmp_path, tensors_of(oracle)) / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    refuses(tmp_path, re.escape(f"{file}: ") + problem)


def test_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="is no folder and no file; a model is"):
        inspect_model(tmp_path / "model")


def test_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(bytes(8))
    with pytest.raises(
        ModelLoadError, match=r"is no GGUF file.*; a model is such a file or a folder"
    ):
        inspect_model(tmp_path / "model")


def test_inspecting_reads_no_weights(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path, tensors_of(oracle))
    monkeypatch.delattr(SafetensorsFolder, "tensor")
    assert inspect_model(folder).num_layers == 4

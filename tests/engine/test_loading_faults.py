"""What people report of software like this one when it loads a model does not happen here.

Each kind of report, and where it is shown:

- a shard is missing, and what is loaded is garbage; a stray file beside the shards gets into the model: the first
  tests below, and `weights/test_safetensors.py`; the same with GGUF files in parts: `models/test_gguf_parts.py`;
- the scale of an FP8 block is dropped: `test_every_fp8_scale_that_is_missing_is_named`; what other formats need:
  `models/test_quantization.py`, `test_missing_part_is_named`, and `weights/test_unsound_quantized.py`;
- what GPTQ leaves in bfloat16, listed or not, is taken for quantized: `models/test_quantization.py`,
  `test_what_gptq_leaves_out_is_used_as_it_is`;
- of Qwen3.5 in a GGUF file, what the converter changed is not undone (norms, decay, value heads, convolution), nor is
  a quantized embedding or head read: `test_a_quantized_file_is_the_folder_of_the_same_numbers`; every architecture
  and format: `models/test_gguf.py`;
- the block that predicts further tokens is counted as a layer: `test_a_block_that_predicts_is_no_layer`,
  `models/test_gguf.py`, `test_blocks_that_predict_are_no_layers`, and `models/test_registry.py`;
- a model's template is lost, and its messages are joined without it: `test_service_gguf.py`,
  `test_a_file_without_a_template_is_refused_before_it_is_loaded`, and `chat/test_gguf_chat.py`; what the form says:
  `test_gguf_model.py`, `test_a_file_that_cannot_be_loaded_is_told_in_words`;
- an oversized header, an LFS pointer, trailing bytes or a truncated file end in an error that helps nobody:
  `test_a_damaged_shard_is_told_in_one_line`, `weights/test_safetensors_header.py`, which shows that nothing is
  allocated, and `weights/test_gguf_header.py`; what the form says: `test_config_flow.py` and `test_gguf_model.py`.
"""

from collections.abc import Callable
from pathlib import Path

from gguf import GGMLQuantizationType as Type
import pytest
from safetensors.torch import load_file, save_file
import torch
from torch.testing import assert_close

from local_llm_engine.config import EngineConfig, Weights
from local_llm_engine.models.registry import inspect_model, load_model

from .gguf_files import write_gguf
from .models.checkpoints import (
    FLOAT32,
    make_oracle,
    random_tokens,
    refuses,
    tensors_of,
    write_checkpoint,
)
from .models.oracles import make, publish
from .models.test_architectures import logits_of
from .models.test_gguf import write_predicting
from .models.test_quantization import WHOLE_WORDS, write_quantized
from .models.test_qwen3_5 import run
from .weights.gguf_packing import representable
from .weights.test_safetensors_header import LFS_POINTER

SECOND_SHARD = "model-00002-of-00003.safetensors"
TOKENS = random_tokens(40)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Write a model into three shards."""
    return write_checkpoint(tmp_path, tensors_of(make_oracle()), num_shards=3)


def test_a_missing_shard_is_refused_by_name(shards: Path) -> None:
    (shards / SECOND_SHARD).unlink()
    refuses(shards, f"{SECOND_SHARD}: is missing")


def test_a_stray_file_beside_shards_is_no_part_of_the_model(shards: Path) -> None:
    """Though it holds a whole model, under the very names."""
    save_file(tensors_of(make_oracle(seed=7)), shards / "model.safetensors")
    logits = run(load_model(shards, FLOAT32), TOKENS, [40])
    assert_close(logits, logits_of(make_oracle(), TOKENS), rtol=3e-4, atol=3e-4)


def test_every_fp8_scale_that_is_missing_is_named(tmp_path: Path) -> None:
    """Of attention of both kinds and of each expert."""
    oracle = make("qwen3_5_moe_text", WHOLE_WORDS)
    write_quantized(tmp_path, oracle, "fp8")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    scales = [name for name in tensors if name.endswith("weight_scale_inv")]
    assert len(scales) > 90
    for scale in scales:
        others = {name: tensor for name, tensor in tensors.items() if name != scale}
        save_file(others, file)
        refuses(tmp_path, f"tensor '{scale}' is missing")


@pytest.mark.parametrize(
    "stored_as", [Type.Q8_0, Type.Q4_0, Type.Q4_K, Type.Q6_K], ids=lambda kind: kind.name
)  # fmt: skip
@pytest.mark.parametrize(
    ("weights", "tolerance"), [("bf16", 1e-4), ("auto", 0.1)], ids=["exact", "taken over"]
)  # fmt: skip
def test_a_quantized_file_is_the_folder_of_the_same_numbers(
    tmp_path: Path, stored_as: Type, weights: Weights, tolerance: float
) -> None:
    """With two value heads to each of two key heads; embedding and head are quantized, too, and are not one.

    Few rows are multiplied in bfloat16 where codes are taken over.
    """
    sizes = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64}
    heads = {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    values = {"linear_value_head_dim": 64, "tie_word_embeddings": False}
    oracle = make("qwen3_5_text", {**sizes, **heads, **values})
    for matrix in (own for own in oracle.parameters() if own.dim() == 2):
        exact = representable(matrix.numpy() / 4, stored_as)
        matrix.copy_(torch.from_numpy(exact))
    folder = publish(tmp_path / "folder", "qwen3_5_text", oracle)
    file = write_gguf(tmp_path / "model.gguf", "qwen3_5_text", oracle, stored_as=stored_as)  # fmt: skip
    expected = run(load_model(folder, FLOAT32), TOKENS, [37, 38, 40])
    model = load_model(file, EngineConfig(dtype="float32", weights=weights))
    logits = run(model, TOKENS, [37, 38, 40])
    assert_close(logits, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("num_blocks", "num_predicting", "is_there"),
    [
        pytest.param(33, None, True, id="counted and there"),
        pytest.param(33, 1, True, id="counted, told of and there"),
        pytest.param(33, 1, False, id="counted and left out"),
        pytest.param(32, 1, False, id="told of and left out"),
    ],
)
def test_a_block_that_predicts_is_no_layer(
    tmp_path: Path, num_blocks: int, num_predicting: int | None, is_there: bool
) -> None:
    layers = ["linear_attention", "full_attention"] * 16
    oracle = make("qwen3_5_text", {"num_hidden_layers": 32, "layer_types": layers})
    file = write_predicting(tmp_path, oracle, num_blocks, num_predicting, is_there)
    assert inspect_model(file).num_layers == 32
    assert load_model(file, FLOAT32).summary.num_layers == 32


def endless_header(content: bytes) -> bytes:
    return (126 * 10**6).to_bytes(8, "little") + content[8:]


def pointer(_: bytes) -> bytes:
    return LFS_POINTER


def trailing(content: bytes) -> bytes:
    return content + bytes(16)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (endless_header, "claims a header of 126000000 bytes"),
        (pointer, r"is a Git LFS pointer, .* \(git lfs pull\)"),
        (trailing, "has 16 bytes after its last tensor"),
        (cut, "is cut short"),
    ],
)
def test_a_damaged_shard_is_told_in_one_line(
    shards: Path, spoil: Callable[[bytes], bytes], problem: str
) -> None:
    shard = shards / SECOND_SHARD
    shard.write_bytes(spoil(shard.read_bytes()))
    refuses(shards, f"^[^\n]*{SECOND_SHARD}: {problem}[^\n]*$")

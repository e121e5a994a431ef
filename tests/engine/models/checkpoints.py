"""Small random checkpoints, written as Hugging Face lays them out, beside the oracle that computes them."""

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
import torch
from torch import Tensor
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import WeightFormatError
from local_llm_engine.models.registry import inspect_model, load_model

FLOAT32 = EngineConfig(dtype="float32")

# Two periods of the pattern; grouped heads in both kinds of layers; sizes that all differ.
TEXT_CONFIG: Mapping[str, Any] = {
    "model_type": "qwen3_5_text",
    "vocab_size": 97,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 4,
    "layer_types": [
        "linear_attention",
        "full_attention",
        "linear_attention",
        "full_attention",
    ],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 20,
    "linear_conv_kernel_dim": 4,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": True,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.5,
        "mrope_interleaved": True,
        "mrope_section": [2, 1, 1],
    },
}


def make_oracle(
    config: Mapping[str, Any] = TEXT_CONFIG, seed: int = 42
) -> Qwen3_5ForCausalLM:
    """Make a random model whose norms are not 1 and whose memory lasts for a while."""
    torch.manual_seed(seed)
    fields = {name: value for name, value in config.items() if name != "model_type"}
    oracle = (
        Qwen3_5ForCausalLM(Qwen3_5TextConfig(**fields, initializer_range=0.2))
        .eval()
        .requires_grad_(False)
    )
    for name, parameter in oracle.named_parameters():
        match name.rsplit(".", 1)[-1]:
            case "dt_bias":
                parameter.uniform_(-5.0, -1.0)
            case "A_log":
                parameter.uniform_(-1.0, 0.5)
            case _ if "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return oracle


def tensors_of(oracle: Qwen3_5ForCausalLM, prefix: str = "model.") -> dict[str, Tensor]:
    """Return the oracle's tensors by the names that a checkpoint with `prefix` gives them; a tied head is left out."""
    tensors = {name: tensor.clone() for name, tensor in oracle.state_dict().items()}
    if oracle.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    return {
        prefix + name.removeprefix("model.")
        if name.startswith("model.")
        else name: tensor
        for name, tensor in tensors.items()
    }


def write_checkpoint(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any] = TEXT_CONFIG,
    num_shards: int = 1,
) -> Path:
    """Write config.json and safetensors, with an index where there are several shards; return the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if num_shards == 1:
        save_file(dict(tensors), folder / "model.safetensors")
        return folder
    weight_map = {}
    for shard in range(num_shards):
        file_name = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        names = list(tensors)[shard::num_shards]
        save_file({name: tensors[name] for name in names}, folder / file_name)
        weight_map.update(dict.fromkeys(names, file_name))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weight_map})
    )
    return folder


def random_tokens(num_tokens: int, vocab_size: int = 97) -> Tensor:
    """Draw token ids, int64 [T]."""
    return torch.randint(
        vocab_size, (num_tokens,), generator=torch.Generator().manual_seed(7)
    )


def refuses(folder: Path, problem: str) -> None:
    """Check that inspecting and loading refuse a folder in the same words."""
    with pytest.raises(WeightFormatError, match=problem) as inspected:
        inspect_model(folder)
    with pytest.raises(WeightFormatError) as loaded:
        load_model(folder, FLOAT32)
    assert str(loaded.value) == str(inspected.value)

"""A small random model of every architecture, as transformers computes it and as its makers publish it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors.torch import save_file
import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)
from transformers.utils import logging

from .checkpoints import TEXT_CONFIG, tensors_of, write_checkpoint

_BASE: Mapping[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
_HYBRID = {name: TEXT_CONFIG[name] for name in TEXT_CONFIG if name != "model_type"}
_EXPERTS = {"num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
_SHARED = {"shared_expert_intermediate_size": 20}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An architecture of transformers and the numbers of a small model of it."""

    config: type[Any]
    model: type[PreTrainedModel]
    fields: Mapping[str, Any]


KINDS: Mapping[str, Kind] = MappingProxyType({
    "llama": Kind(config=LlamaConfig, model=LlamaForCausalLM, fields={**_BASE, "rope_parameters": LLAMA3_ROPE}),
    "qwen2": Kind(config=Qwen2Config, model=Qwen2ForCausalLM, fields=_BASE),
    "qwen3": Kind(config=Qwen3Config, model=Qwen3ForCausalLM, fields={**_BASE, "head_dim": 16}),
    "qwen3_moe": Kind(
        config=Qwen3MoeConfig,
        model=Qwen3MoeForCausalLM,
        fields={**_BASE, **_EXPERTS, "head_dim": 16, "mlp_only_layers": [1], "norm_topk_prob": True},
    ),
    "qwen3_next": Kind(
        config=Qwen3NextConfig,
        model=Qwen3NextForCausalLM,
        fields={**_HYBRID, **_EXPERTS, **_SHARED, "mlp_only_layers": [2]},
    ),
    "qwen3_5_text": Kind(config=Qwen3_5TextConfig, model=Qwen3_5ForCausalLM, fields=_HYBRID),
    "qwen3_5_moe_text": Kind(
        config=Qwen3_5MoeTextConfig, model=Qwen3_5MoeForCausalLM, fields={**_HYBRID, **_EXPERTS, **_SHARED}
    ),
})  # fmt: skip
# What Qwen3.5's own configuration says of the rotary embedding on three axes, Qwen3-Next's does not know.
_NO_AXES = {
    "rope_type": "default",
    "rope_theta": 10_000.0,
    "partial_rotary_factor": 0.5,
}


def make(kind: str, changes: Mapping[str, Any] | None = None, seed: int = 42) -> Any:
    """Make a random model in which nothing is 0 or 1 for all tokens."""
    torch.manual_seed(seed)
    chosen = KINDS[kind]
    fields = {**chosen.fields, **(changes or {})}
    if kind == "qwen3_next" and "mrope_section" in fields["rope_parameters"]:
        fields["rope_parameters"] = _NO_AXES
    oracle = chosen.model(chosen.config(**fields, initializer_range=0.2))
    oracle = oracle.eval().requires_grad_(False)
    if hasattr(oracle.config, "num_experts"):
        # One expert after the other, as their paper has it.
        oracle.set_experts_implementation("eager")
    for name, parameter in oracle.named_parameters():
        _randomize(name, parameter)
    return oracle


def _randomize(name: str, parameter: Tensor) -> None:
    match name.rsplit(".", 1)[-1]:
        case "dt_bias":
            parameter.uniform_(-5.0, -1.0)
        case "A_log":
            parameter.uniform_(-1.0, 0.5)
        case "bias":
            parameter.normal_(0.0, 0.2)
        case _ if "norm" in name:
            parameter.add_(torch.randn_like(parameter) * 0.2)
        case _ if name.endswith("mlp.gate.weight"):
            parameter.normal_(0.0, 0.5)


def publish(folder: Path, kind: str, oracle: Any) -> Path:
    """Write a model down as its makers do; return the folder.

    For all but Qwen3.5's this is what transformers writes. That takes Qwen3.5's experts apart, which its
    makers publish fused, within a model that also sees.
    """
    if kind != "qwen3_5_moe_text":
        return write_separate(folder, oracle)
    text = {**oracle.config.to_dict(), "model_type": kind}
    config = {"model_type": "qwen3_5_moe", "text_config": text}
    return write_checkpoint(folder, _fused(oracle), config)


def write_separate(folder: Path, oracle: Any) -> Path:
    """Write a model down as transformers does, with three tensors for every expert; return the folder."""
    # Its bar leaves a thread behind.
    logging.disable_progress_bar()
    oracle.save_pretrained(folder)
    return folder


def write_fused(folder: Path, oracle: Any) -> Path:
    """Write a model with experts down with all experts of a layer in two tensors; return the folder."""
    save_file(tensors_of(oracle), write_separate(folder, oracle) / "model.safetensors")
    return folder


def _fused(oracle: Any) -> dict[str, Tensor]:
    vision = {"model.visual.patch_embed.proj.weight": torch.zeros(3, 2, 2)}
    return tensors_of(oracle, "model.language_model.") | vision

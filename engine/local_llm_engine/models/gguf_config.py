"""What a GGUF file's metadata says of a model, in the words of config.json, so that each architecture reads it itself.

Knows llama.cpp's keys and which blocks of a file are layers; reads no weights but the factors of a
rotary embedding.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, override

from ..errors import UnsupportedModelError, shown
from ..weights.gguf_header import GgufHeader
from ..weights.gguf_reading import Value
from .config import ModelConfig, RotaryConfig
from .config_fields import ConfigFields

# From general.architecture to the model_type that computes it.
MODEL_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "llama": "llama",
        "qwen2": "qwen2",
        "qwen3": "qwen3",
        "qwen35": "qwen3_5_text",
        "qwen35moe": "qwen3_5_moe_text",
        "qwen3moe": "qwen3_moe",
        "qwen3next": "qwen3_next",
    }
)
_ARCHITECTURE = "general.architecture"
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "head_dim": "attention.key_length",
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "linear_conv_kernel_dim": "ssm.conv_kernel",
        "linear_key_head_dim": "ssm.state_size",
        "linear_num_key_heads": "ssm.group_count",
        "linear_num_value_heads": "ssm.time_step_rank",
        "linear_value_head_dim": "ssm.inner_size",
        "max_position_embeddings": "context_length",
        "moe_intermediate_size": "expert_feed_forward_length",
        "norm_topk_prob": "expert_weights_norm",
        "num_attention_heads": "attention.head_count",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "num_hidden_layers": "block_count",
        "num_key_value_heads": "attention.head_count_kv",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "rope_theta": "rope.freq_base",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    }
)
# What would change the arithmetic in ways that are not computed here, and the values that change nothing.
_OPTIONS: Mapping[str, tuple[Value, ...]] = MappingProxyType(
    {
        "attention.causal": (True,),
        "attention.clamp_kqv": (0.0,),
        "attention.scale": (),
        "attention.sliding_window": (0,),
        "attention.temperature_scale": (),
        "attn_logit_softcapping": (),
        "embedding_scale": (1.0,),
        "expert_gating_func": (1,),
        "expert_group_count": (0, 1),
        "expert_weights_scale": (0.0, 1.0),
        "final_logit_softcapping": (),
        "logit_scale": (1.0,),
        "residual_scale": (1.0,),
        "rope.scale_linear": (1.0,),
        "rope.scaling.type": ("none",),
    }
)
_DEFAULT_THETA = 10_000.0
_MAX_LAYERS = 1024


class GgufFields(ConfigFields):
    """Fields by their names in config.json; messages name the keys that they came from."""

    def __init__(self, file: Path, prefix: str, values: dict[str, Any]) -> None:
        """Read `values`; `prefix` is the architecture's name before its keys."""
        super().__init__(file, "", values)
        self._prefix = prefix

    @override
    def name_of(self, name: str) -> str:
        """Return the key that a field came from."""
        return f"{self._prefix}.{_KEYS[name]}" if name in _KEYS else name


def architecture_name(header: GgufHeader) -> str:
    """Return the name of the architecture that a file is of.

    Raises:
        UnsupportedModelError: it is none that is known here.
    """
    name = header.metadata.get(_ARCHITECTURE)
    if not isinstance(name, str) or name not in MODEL_TYPES:
        raise UnsupportedModelError(
            f"{header.file}: {_ARCHITECTURE} is {shown(name)}; known are {', '.join(MODEL_TYPES)}"
        )
    return name


def config_fields(header: GgufHeader) -> GgufFields:
    """Write a file's metadata in the words of config.json.

    Raises:
        UnsupportedModelError: the model is of a kind, or has an option, that is not computed here.
    """
    prefix = architecture_name(header)
    _refuse_other_options(header, prefix)
    own = {
        name: _one(header.metadata[f"{prefix}.{key}"])
        for name, key in _KEYS.items()
        if f"{prefix}.{key}" in header.metadata
    }
    num_layers = _num_layers(header, prefix)
    embedding = header.tensors.get("token_embd.weight")
    values = {
        "rope_theta": _DEFAULT_THETA,
        "norm_topk_prob": True,
        **own,
        "model_type": MODEL_TYPES[prefix],
        "num_hidden_layers": num_layers,
        "layer_types": _layer_types(header, num_layers),
        "linear_value_head_dim": _value_head_dim(own),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "vocab_size": embedding.shape[0] if embedding else None,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in header.tensors,
    }
    there = {name: value for name, value in values.items() if value is not None}
    return GgufFields(header.file, prefix, there)


def with_rotary(
    config: ModelConfig, header: GgufHeader, factors: tuple[float, ...] | None
) -> ModelConfig:
    """Complete a configuration by how much of a head the rotary embedding turns, and by its pairs' factors.

    Raises:
        ModelLoadError: either does not fit the model.
    """
    prefix = architecture_name(header)
    key = f"{prefix}.rope.dimension_count"
    dim = header.metadata.get(key, config.rotary.dim)
    # The converter of this family puts all pairs of a head in another order.
    least = config.head_dim if prefix == "llama" else 2
    fields = ConfigFields(header.file, "", {key: dim})
    if fields.whole(key, low=least, high=config.head_dim) % 2:
        raise fields.error(key, f"an even number up to {config.head_dim}")
    assert isinstance(dim, int)
    if factors is not None and (
        len(factors) != dim // 2 or not all(0 < factor < 1e6 for factor in factors)
    ):
        raise ConfigFields(header.file, "", {"rope_freqs.weight": factors[:4]}).error(
            "rope_freqs.weight", f"{dim // 2} numbers above 0"
        )
    rotary = RotaryConfig(dim=dim, theta=config.rotary.theta, divisors=factors)
    return replace(config, rotary=rotary)


def _refuse_other_options(header: GgufHeader, prefix: str) -> None:
    for key, values in _OPTIONS.items():
        value = header.metadata.get(f"{prefix}.{key}")
        if value is not None and value not in values:
            raise UnsupportedModelError(
                f"{header.file}: {prefix}.{key} is {shown(value)}; "
                f"supported is {repr(values[0]) if values else 'none'}"
            )


def _num_layers(header: GgufHeader, prefix: str) -> Any:
    """Count the layers: the blocks less those that predict further tokens, which some files count and others do not.

    What stands in the file decides between the two; where neither count fits it, the smaller one does, and
    what is missing is told by name.
    """
    count: Any = header.metadata.get(f"{prefix}.block_count")
    further: Any = header.metadata.get(f"{prefix}.nextn_predict_layers", 0)
    if type(count) is not int or type(further) is not int or count > _MAX_LAYERS:
        return count
    blocks = _blocks(header)
    num_layers = next(
        (
            index
            for index in range(count)
            if not blocks.get(index) or any("nextn" in name for name in blocks[index])
        ),
        count,
    )
    there = sum(any("nextn" in name for name in block) for block in blocks.values())
    possible = (count - further, count, count - there)
    return num_layers if num_layers in possible else possible[0]


def _blocks(header: GgufHeader) -> dict[int, list[str]]:
    blocks: dict[int, list[str]] = {}
    for name in header.tensors:
        start, _, rest = name.partition(".")
        index, _, leaf = rest.partition(".")
        if start == "blk" and index.isdecimal() and len(index) <= 4:
            blocks.setdefault(int(index), []).append(leaf)
    return blocks


def _layer_types(header: GgufHeader, num_layers: Any) -> list[str] | None:
    """Say what each layer attends with: its tensors show it."""
    if type(num_layers) is not int or not 1 <= num_layers <= _MAX_LAYERS:
        return None
    kinds = ("full_attention", "linear_attention")
    return [
        kinds[f"blk.{index}.ssm_a" in header.tensors] for index in range(num_layers)
    ]


def _value_head_dim(own: Mapping[str, Any]) -> Any:
    """Divide the size of all value heads by their number, where both are numbers and it can be."""
    size, heads = own.get("linear_value_head_dim"), own.get("linear_num_value_heads")
    if type(size) is int and type(heads) is int and heads and size % heads == 0:
        return size // heads
    return size if heads is None else None


def _one(value: Value) -> Value:
    """Return the one number of a value that is given for each layer, 0 where a layer has none of it."""
    if not isinstance(value, tuple):
        return value
    different = set(value) - {0}
    return different.pop() if len(different) == 1 else value[:4]

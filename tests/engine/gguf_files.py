"""Writes GGUF files as llama.cpp's converter does, with the gguf package's own names and writer."""

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Type
from tokenizers import Tokenizer
import torch
from torch import Tensor

from tests.engine.models.checkpoints import tensors_of
from tests.engine.weights.gguf_packing import pack

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "qwen3_next": gguf.MODEL_ARCH.QWEN3NEXT,
    "qwen3_5_text": gguf.MODEL_ARCH.QWEN35,
    "qwen3_5_moe_text": gguf.MODEL_ARCH.QWEN35MOE,
}
_HYBRIDS = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
# A tokenizer that loads, for models of which nobody asks how text is cut.
_TOKENIZER: Mapping[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "qwen2",
}


def write_gguf(
    file: Path,
    kind: str,
    oracle: Any,
    *,
    stored_as: Type = Type.F32,
    metadata: Mapping[str, Any] | None = None,
    further: Mapping[str, Tensor] | None = None,
    tensors_a_part: int = 0,
) -> Path:
    """Convert a model; its matrices are `stored_as`, `metadata` and `further` tensors are added, None takes away."""
    tensors = dict(converted(kind, oracle)) | dict(further or {})
    entries = {**metadata_of(kind, oracle), **(metadata or {})}
    return write_file(file, entries, tensors, stored_as, tensors_a_part)


def write_file(
    file: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    stored_as: Type = Type.F32,
    tensors_a_part: int = 0,
) -> Path:
    """Write metadata and tensors; vectors, the convolution and what decides among experts stay in float32.

    With `tensors_a_part`, into files of as many tensors each, which bear the number of the part in their names.
    """
    architecture = metadata["general.architecture"]
    writer = gguf.GGUFWriter(file, architecture, split_max_tensors=tensors_a_part)
    for key, value in metadata.items():
        if key != "general.architecture" and value is not None:
            _add(writer, key, value)
    for name, tensor in tensors.items():
        is_small = tensor.dim() < 2 or "conv1d" in name or "gate_inp" in name
        kind = Type.F32 if is_small else stored_as
        packed = pack(tensor.float().numpy(), kind)
        plain = kind in (Type.F32, Type.F16)
        writer.add_tensor(name, packed, raw_dtype=None if plain else kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def metadata_of(kind: str, oracle: Any) -> dict[str, Any]:
    """What llama.cpp's converter writes of a model's numbers."""
    config = oracle.config
    name = gguf.MODEL_ARCH_NAMES[ARCHITECTURES[kind]]
    rope = config.rope_parameters
    head_dim = getattr(config, "head_dim", None)
    own = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size
        if kind != "qwen3_5_moe_text"
        else None,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if kind == "llama":
        own |= {"rope.dimension_count": head_dim, "vocab_size": config.vocab_size}
    if hasattr(config, "num_experts"):
        own |= {
            "expert_count": config.num_experts,
            "expert_used_count": config.num_experts_per_tok,
            "expert_feed_forward_length": config.moe_intermediate_size,
            "expert_shared_feed_forward_length": getattr(
                config, "shared_expert_intermediate_size", None
            ),
        }
    if kind in _HYBRIDS:
        own |= {
            "ssm.conv_kernel": config.linear_conv_kernel_dim,
            "ssm.state_size": config.linear_key_head_dim,
            "ssm.group_count": config.linear_num_key_heads,
            "ssm.time_step_rank": config.linear_num_value_heads,
            "ssm.inner_size": config.linear_value_head_dim
            * config.linear_num_value_heads,
            # Of layers that have no rule the converter writes the usual one.
            "attention.recurrent_layers": [
                layer == "linear_attention" for layer in config.layer_types
            ],
            "full_attention_interval": getattr(config, "full_attention_interval", 4),
            "rope.dimension_count": int(
                config.head_dim * rope["partial_rotary_factor"]
            ),
            "rope.dimension_sections": [2, 1, 1, 0] if kind != "qwen3_next" else None,
        }
    tokens = [f"t{index}" for index in range(config.vocab_size)]
    return {
        "general.architecture": name,
        **{f"{name}.{key}": value for key, value in own.items()},
        **_TOKENIZER,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * len(tokens),
        "tokenizer.ggml.merges": ["t 0"],
    }  # fmt: skip


def converted(kind: str, oracle: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor by its name and in its order in a GGUF file."""
    names = gguf.get_tensor_name_map(
        ARCHITECTURES[kind], oracle.config.num_hidden_layers
    )
    for name, tensor in tensors_of(oracle).items():
        for changed_name, changed in _changed(kind, oracle.config, name, tensor):
            found = names.get_name(changed_name, try_suffixes=(".weight", ".bias"))
            assert found, changed_name
            yield found, changed.contiguous()
    rope = oracle.config.rope_parameters
    if rope.get("rope_type") == "llama3":
        yield "rope_freqs.weight", _llama3_factors(rope, oracle.config.head_dim)


def _changed(
    kind: str, config: Any, name: str, tensor: Tensor
) -> Iterator[tuple[str, Tensor]]:
    if kind == "llama":
        for end, heads in (
            ("q_proj", config.num_attention_heads),
            ("k_proj", config.num_key_value_heads),
        ):
            if f"{end}." in name:
                tensor = _beside_each_other(tensor, heads)
    if kind in ("qwen3_5_text", "qwen3_5_moe_text"):
        tensor = _tiled(config, name, tensor)
    if kind in _HYBRIDS:
        name, tensor = _hybrid(name, tensor)
    if name.endswith("in_proj_qkvz.weight"):
        qkv, gate = _apart(config, tensor)
        yield name.replace("in_proj_qkvz", "in_proj_qkv"), qkv
        yield name.replace("in_proj_qkvz", "in_proj_z"), gate
    elif name.endswith("experts.gate_up_proj"):
        gate, up = tensor.chunk(2, dim=1)
        yield name.replace("gate_up_proj", "gate_proj.weight"), gate
        yield name.replace("gate_up_proj", "up_proj.weight"), up
    elif name.endswith("experts.down_proj"):
        yield f"{name}.weight", tensor
    else:
        yield name, tensor


def _beside_each_other(tensor: Tensor, num_heads: int) -> Tensor:
    shape = (num_heads, 2, tensor.shape[0] // num_heads // 2, *tensor.shape[1:])
    return tensor.reshape(shape).swapaxes(1, 2).reshape(tensor.shape)


def _hybrid(name: str, tensor: Tensor) -> tuple[str, Tensor]:
    if name.endswith(".A_log"):
        return name, -tensor.exp()
    if name.endswith(".dt_bias"):
        return name.replace("dt_bias", "dt_proj.bias"), tensor
    if "conv1d" in name:
        return name, tensor.squeeze()
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        return name, tensor + 1
    return name, tensor


def _tiled(config: Any, name: str, tensor: Tensor) -> Tensor:
    """Put the first value head of every key head first, then the second."""
    heads = config.linear_num_key_heads
    group = config.linear_num_value_heads // heads
    others = 2 * heads * config.linear_key_head_dim

    def reorder(part: Tensor, dim: int, width: int) -> Tensor:
        shape = [*part.shape[:dim], heads, group, width, *part.shape[dim + 1 :]]
        return part.reshape(shape).transpose(dim, dim + 1).reshape(part.shape)

    width = config.linear_value_head_dim
    if ".in_proj_qkv." in name or ".conv1d." in name:
        return torch.cat((tensor[:others], reorder(tensor[others:], 0, width)))
    if ".in_proj_z." in name:
        return reorder(tensor, 0, width)
    if (
        ".in_proj_a." in name
        or ".in_proj_b." in name
        or name.endswith((".A_log", ".dt_bias"))
    ):
        return reorder(tensor, 0, 1)
    return reorder(tensor, 1, width) if ".linear_attn.out_proj." in name else tensor


def _apart(config: Any, tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Part what belongs to each key head into all queries, all keys and so on."""
    heads = config.linear_num_key_heads
    key = config.linear_key_head_dim
    value = config.linear_num_value_heads // heads * config.linear_value_head_dim
    by_head = tensor.view(heads, 2 * key + 2 * value, -1)
    parts = by_head.split([key, key, value, value], dim=1)
    query, key_rows, values, gate = (
        part.reshape(-1, tensor.shape[1]) for part in parts
    )
    return torch.cat((query, key_rows, values)), gate


def _llama3_factors(rope: Mapping[str, Any], head_dim: int) -> Tensor:
    frequencies = 1.0 / rope["rope_theta"] ** (torch.arange(0, head_dim, 2) / head_dim)
    lengths = 2 * torch.pi / frequencies
    before = rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = (before / lengths - low) / (high - low)
    between = 1 / ((1 - smooth) / rope["factor"] + smooth)
    factors = torch.where(lengths > before / low, rope["factor"], between)
    return torch.where(lengths < before / high, 1.0, factors)


def tokenizer_metadata(
    tokenizer: Tokenizer, *, pre: str, vocab_size: int | None = None
) -> dict[str, Any]:
    """What llama.cpp's converter writes of a byte-level tokenizer, whose vocabulary is filled up to `vocab_size`."""
    specification = json.loads(tokenizer.to_str())
    added = {token["id"]: token for token in specification["added_tokens"]}
    size = vocab_size or tokenizer.get_vocab_size()
    texts, kinds = [], []
    for index in range(size):
        text = tokenizer.id_to_token(index)
        kind = gguf.TokenType.UNUSED if text is None else gguf.TokenType.NORMAL
        if index in added:
            special = added[index]["special"]
            kind = gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED
        texts.append(f"[PAD{index}]" if text is None else text)
        kinds.append(int(kind))
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [
            " ".join(merge) for merge in specification["model"]["merges"]
        ],
        "tokenizer.ggml.eos_token_id": tokenizer.token_to_id("<|im_end|>"),
    }

"""Attention over all tokens so far, plain and with a gate.

Owns the weights of one layer; its KV lies in the sequence's state.
"""

import torch
from torch import Tensor

from ..cache.kv_state import KVState
from ..ops.attention import attention, attention_one_row, rotate
from ..weights.loader import WeightLoader
from .config import ModelConfig
from .layers import Norm, Projections, Shapes, ZeroCentredNorm, linear_shapes

type Rotation = tuple[Tensor, Tensor]

_NORMS = ("q_norm", "k_norm")


def attention_shapes(config: ModelConfig, *, normed: bool = False) -> Shapes:
    """Name the tensors of one layer of plain attention; `normed`: with norms on query and key."""
    query_size = config.num_attention_heads * config.head_dim
    shapes = {
        **linear_shapes(_sizes(config), config.hidden_size, bias=config.qkv_bias),
        **linear_shapes(
            {"o_proj": config.hidden_size}, query_size, bias=config.output_bias
        ),
    }
    return {**shapes, **_norm_shapes(config)} if normed else shapes


class Attention:
    """One layer of plain attention with rotary embedding; with norms on query and key where there are such."""

    def __init__(
        self, config: ModelConfig, loader: WeightLoader, *, normed: bool = False
    ) -> None:
        """Take the weights that `attention_shapes` names."""
        self._head_dim = config.head_dim
        self._inward = Projections(loader, _sizes(config), bias=config.qkv_bias)
        self._norms = (
            tuple(Norm(loader, name, config.rms_norm_eps) for name in _NORMS)
            if normed
            else None
        )
        self._outward = loader.linear("o_proj.weight")
        self._outward_bias = loader.bias("o_proj.bias") if config.output_bias else None

    def __call__(
        self, rows: Tensor, rotation: Rotation, state: KVState, position: int
    ) -> Tensor:
        """Map rows [T, H] of tokens position .. position + T - 1 to [T, H]; appends their KV to `state`.

        `rotation` is cosine and sine of these positions' angles, [T, 1, R / 2].
        """
        query, key, value = (
            projected.reshape(rows.shape[0], -1, self._head_dim)
            for projected in self._inward(rows)
        )
        if self._norms is not None:
            query_norm, key_norm = self._norms
            query, key = query_norm(query), key_norm(key)
        mixed = _attend(query, key, value, rotation, state, position)
        return self._outward(mixed.flatten(1), self._outward_bias)


def gated_attention_shapes(config: ModelConfig) -> Shapes:
    """Name the tensors of one layer of gated attention; q_proj holds query and gate of one head after the other."""
    query_size = config.num_attention_heads * config.head_dim
    return {
        **linear_shapes(_gated_sizes(config), config.hidden_size, bias=False),
        **linear_shapes({"o_proj": config.hidden_size}, query_size, bias=False),
        **_norm_shapes(config),
    }


class GatedAttention:
    """One attention layer with norms on query and key, partial rotary embedding, and a gate made from the input."""

    def __init__(self, config: ModelConfig, loader: WeightLoader) -> None:
        """Take the weights that `gated_attention_shapes` names."""
        self._head_dim = config.head_dim
        self._inward = Projections(loader, _gated_sizes(config))
        self._query_norm, self._key_norm = (
            ZeroCentredNorm(loader, name, config.rms_norm_eps) for name in _NORMS
        )
        self._outward = loader.linear("o_proj.weight")

    def __call__(
        self, rows: Tensor, rotation: Rotation, state: KVState, position: int
    ) -> Tensor:
        """Map rows [T, H] of tokens position .. position + T - 1 to [T, H]; appends their KV to `state`.

        `rotation` is cosine and sine of these positions' angles, [T, 1, R / 2].
        """
        num_tokens = rows.shape[0]
        query_and_gate, key, value = self._inward(rows)
        query, gate = torch.split(
            query_and_gate.view(num_tokens, -1, 2 * self._head_dim),
            self._head_dim,
            dim=-1,
        )
        mixed = _attend(
            self._query_norm(query),
            self._key_norm(key.view(num_tokens, -1, self._head_dim)),
            value.view(num_tokens, -1, self._head_dim),
            rotation,
            state,
            position,
        )
        gated = mixed * gate.sigmoid()
        return self._outward(gated.view(num_tokens, -1))


def _norm_shapes(config: ModelConfig) -> Shapes:
    return {f"{name}.weight": (config.head_dim,) for name in _NORMS}


def _sizes(config: ModelConfig) -> dict[str, int]:
    key_size = config.num_key_value_heads * config.head_dim
    query_size = config.num_attention_heads * config.head_dim
    return {"q_proj": query_size, "k_proj": key_size, "v_proj": key_size}


def _gated_sizes(config: ModelConfig) -> dict[str, int]:
    sizes = _sizes(config)
    return {**sizes, "q_proj": 2 * sizes["q_proj"]}


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rotation: Rotation,
    state: KVState,
    position: int,
) -> Tensor:
    """Turn query [T, HQ, D] and key [T, HKV, D] by their positions, append KV to `state`, and attend; [T, HQ, D]."""
    query = rotate(query, *rotation).to(value.dtype)
    state.append(
        position, rotate(key, *rotation).transpose(0, 1), value.transpose(0, 1)
    )
    length = position + query.shape[0]
    if query.shape[0] == 1:
        return attention_one_row(query, *state.padded_rows(length), length)
    return attention(query, *state.rows(length))

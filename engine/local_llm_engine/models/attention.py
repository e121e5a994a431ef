"""Gated attention: attention over all tokens so far, whose result passes a gate made from the input.

Owns the weights of one layer; its KV lies in the sequence's state.
"""

import torch
from torch import Tensor
from torch.nn import functional

from ..cache.state import KVState
from ..ops.attention import attention, attention_one_row, rotate
from ..weights.loader import WeightLoader
from .config import ModelConfig
from .layers import Projections, Shapes, ZeroCentredNorm


def attention_shapes(config: ModelConfig) -> Shapes:
    """Name the tensors of one attention layer; q_proj holds query and gate of one head after the other."""
    query_size = config.num_attention_heads * config.head_dim
    key_size = config.num_key_value_heads * config.head_dim
    return {
        "q_proj.weight": (2 * query_size, config.hidden_size),
        "k_proj.weight": (key_size, config.hidden_size),
        "v_proj.weight": (key_size, config.hidden_size),
        "o_proj.weight": (config.hidden_size, query_size),
        "q_norm.weight": (config.head_dim,),
        "k_norm.weight": (config.head_dim,),
    }


class GatedAttention:
    """One attention layer with norms on query and key, partial rotary embedding and an output gate."""

    def __init__(self, config: ModelConfig, loader: WeightLoader) -> None:
        """Take the weights that `attention_shapes` names."""
        shapes = attention_shapes(config)
        self._head_dim = config.head_dim
        self._inward = Projections(
            loader,
            {
                name: shapes[f"{name}.weight"][0]
                for name in ("q_proj", "k_proj", "v_proj")
            },
        )
        self._query_norm = ZeroCentredNorm(loader, "q_norm", config.rms_norm_eps)
        self._key_norm = ZeroCentredNorm(loader, "k_norm", config.rms_norm_eps)
        self._outward = loader.matrix("o_proj.weight")

    def __call__(
        self,
        rows: Tensor,
        rotation: tuple[Tensor, Tensor],
        state: KVState,
        position: int,
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
        query = rotate(self._query_norm(query), *rotation).to(rows.dtype)
        key = rotate(
            self._key_norm(key.view(num_tokens, -1, self._head_dim)), *rotation
        )
        value = value.view(num_tokens, -1, self._head_dim)
        keys, values = state.append(
            position, key.transpose(0, 1), value.transpose(0, 1)
        )
        attend = attention_one_row if num_tokens == 1 else attention
        gated = attend(query, keys, values) * gate.sigmoid()
        return functional.linear(gated.view(num_tokens, -1), self._outward)

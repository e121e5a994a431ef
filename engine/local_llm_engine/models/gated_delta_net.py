"""Gated DeltaNet: a short convolution, the gated delta rule and a gated norm (arXiv:2412.06464).

Owns the weights of one layer; its recurrent state lies in the sequence's state.
"""

import torch
from torch import Tensor
from torch.nn import functional

from ..cache.state import DeltaState
from ..ops.causal_conv import causal_conv, causal_conv_one_row
from ..ops.gated_delta_rule import gated_delta_rule_chunked, gated_delta_rule_recurrent
from ..ops.norms import gated_rms_norm
from ..weights.loader import WeightLoader
from .config import ModelConfig
from .layers import Projections, Shapes


def num_conv_channels(config: ModelConfig) -> int:
    """Count the channels of the convolution: queries, keys and values side by side."""
    return 2 * _key_size(config) + _value_size(config)


def gated_delta_net_shapes(config: ModelConfig) -> Shapes:
    """Name the tensors of one Gated DeltaNet layer."""
    heads = config.linear_num_value_heads
    channels = num_conv_channels(config)
    return {
        "in_proj_qkv.weight": (channels, config.hidden_size),
        "in_proj_z.weight": (_value_size(config), config.hidden_size),
        "in_proj_b.weight": (heads, config.hidden_size),
        "in_proj_a.weight": (heads, config.hidden_size),
        "conv1d.weight": (channels, 1, config.linear_conv_kernel_dim),
        "A_log": (heads,),
        "dt_bias": (heads,),
        "norm.weight": (config.linear_value_head_dim,),
        "out_proj.weight": (config.hidden_size, _value_size(config)),
    }


class GatedDeltaNet:
    """One Gated DeltaNet layer; convolution, gates, rule and norm are computed in float32."""

    def __init__(self, config: ModelConfig, loader: WeightLoader) -> None:
        """Take the weights that `gated_delta_net_shapes` names."""
        shapes = gated_delta_net_shapes(config)
        names = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
        self._inward = Projections(
            loader, {name: shapes[f"{name}.weight"][0] for name in names}
        )
        self._conv_weight = (
            loader.vector("conv1d.weight")[:, 0].t().contiguous()
        )  # [kernel, C]
        self._negative_rate = -loader.vector("A_log").exp()
        self._step_bias = loader.vector("dt_bias")
        self._norm_scale = loader.vector(
            "norm.weight"
        )  # not zero-centred, unlike all other norms
        self._epsilon = config.rms_norm_eps
        self._outward = loader.matrix("out_proj.weight")
        self._key_dim = config.linear_key_head_dim
        self._value_dim = config.linear_value_head_dim
        self._sizes = [_key_size(config), _key_size(config), _value_size(config)]

    def __call__(self, rows: Tensor, state: DeltaState) -> Tensor:
        """Map rows [T, H] to [T, H]; advances `state` by T tokens."""
        num_tokens = rows.shape[0]
        one_row = num_tokens == 1
        mixed, gate, strength, step = self._inward(rows)
        convolve = causal_conv_one_row if one_row else causal_conv
        convolved, conv_state = convolve(mixed, self._conv_weight, state.conv)
        query, key, value = torch.split(convolved, self._sizes, dim=-1)
        apply_rule = gated_delta_rule_recurrent if one_row else gated_delta_rule_chunked
        output, delta_state = apply_rule(
            query.view(num_tokens, -1, self._key_dim),
            key.view(num_tokens, -1, self._key_dim),
            value.view(num_tokens, -1, self._value_dim),
            functional.softplus(step.float() + self._step_bias) * self._negative_rate,
            strength.float().sigmoid(),
            state.delta,
        )
        state.conv.copy_(conv_state)
        state.delta.copy_(delta_state)
        gated = gated_rms_norm(
            output, gate.view(output.shape), self._norm_scale, self._epsilon
        )
        return functional.linear(
            gated.view(num_tokens, -1).to(rows.dtype), self._outward
        )


def _key_size(config: ModelConfig) -> int:
    return config.linear_num_key_heads * config.linear_key_head_dim


def _value_size(config: ModelConfig) -> int:
    return config.linear_num_value_heads * config.linear_value_head_dim

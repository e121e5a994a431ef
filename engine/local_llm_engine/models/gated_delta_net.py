"""Gated DeltaNet: a short convolution, the gated delta rule and a gated norm (arXiv:2412.06464).

Owns the weights of one layer; its recurrent state lies in the sequence's state.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..cache.state import DeltaState
from ..ops.causal_conv import causal_conv, causal_conv_one_row
from ..ops.gated_delta_rule import gated_delta_rule_chunked, gated_delta_rule_recurrent
from ..ops.norms import gated_rms_norm
from ..weights.loader import WeightLoader
from .config import DeltaNetConfig
from .layers import Projections, Shapes, linear_shapes


class DeltaInputs(NamedTuple):
    """What a layer makes of its rows first.

    `mixed`: [T, C], queries, keys and values side by side, each head after head, for the convolution.
    `gate`: [T, HV * V]. `strength`, `step`: [T, HV], before their activations.
    """

    mixed: Tensor
    gate: Tensor
    strength: Tensor
    step: Tensor


# A few chunks of the delta rule.
_BLOCK_TOKENS = 128

type InwardProjection = Callable[[Tensor], DeltaInputs]


def split_projection_shapes(config: DeltaNetConfig, hidden_size: int) -> Shapes:
    """Name the tensors of a projection to each of the four inputs."""
    return linear_shapes(_split_sizes(config), hidden_size, bias=False)


class SplitProjection:
    """A projection to each of the four inputs."""

    def __init__(self, config: DeltaNetConfig, loader: WeightLoader) -> None:
        """Take the weights that `split_projection_shapes` names."""
        self._projections = Projections(loader, _split_sizes(config))

    def __call__(self, rows: Tensor) -> DeltaInputs:
        """Map rows [T, H]."""
        return DeltaInputs(*self._projections(rows))


def gated_delta_net_shapes(config: DeltaNetConfig, hidden_size: int) -> Shapes:
    """Name the tensors of one Gated DeltaNet layer, without its inward projection."""
    heads = config.linear_num_value_heads
    kernel_shape = (config.num_conv_channels, 1, config.linear_conv_kernel_dim)
    return {
        "conv1d.weight": kernel_shape,
        "A_log": (heads,),
        "dt_bias": (heads,),
        "norm.weight": (config.linear_value_head_dim,),
        "out_proj.weight": (hidden_size, config.value_size),
    }


class GatedDeltaNet:
    """One Gated DeltaNet layer; convolution, gates, rule and norm are computed in float32."""

    def __init__(
        self,
        config: DeltaNetConfig,
        loader: WeightLoader,
        inward: InwardProjection,
        epsilon: float,
    ) -> None:
        """Take the weights that `gated_delta_net_shapes` names."""
        self._inward = inward
        self._conv_weight = (
            loader.vector("conv1d.weight")[:, 0].t().contiguous()
        )  # [kernel, C]
        self._negative_rate = -loader.vector("A_log").exp()
        self._step_bias = loader.vector("dt_bias")
        self._norm_scale = loader.vector(
            "norm.weight"
        )  # not zero-centred, unlike all other norms
        self._epsilon = epsilon
        self._outward = loader.linear("out_proj.weight")
        self._key_dim = config.linear_key_head_dim
        self._value_dim = config.linear_value_head_dim
        self._sizes = [config.key_size, config.key_size, config.value_size]

    def __call__(self, rows: Tensor, state: DeltaState) -> Tensor:
        """Map rows [T, H] to [T, H]; advances `state` by T tokens."""
        inputs = self._inward(rows)
        if rows.shape[0] <= _BLOCK_TOKENS:
            return self._outward(self._mix(inputs, state).to(rows.dtype))
        # Blocks of all four, so that what lies between two products stays in the CPU's cache.
        blocks = zip(
            *(torch.split(part, _BLOCK_TOKENS) for part in inputs), strict=True
        )
        mixed = [self._mix(DeltaInputs(*block), state) for block in blocks]
        return self._outward(torch.cat(mixed).to(rows.dtype))

    def _mix(self, inputs: DeltaInputs, state: DeltaState) -> Tensor:
        """Map the inputs of T tokens to [T, HV * V], float32; advances `state`."""
        num_tokens = inputs.mixed.shape[0]
        one_row = num_tokens == 1
        convolve = causal_conv_one_row if one_row else causal_conv
        convolved = convolve(inputs.mixed, self._conv_weight, state.conv)
        query, key, value = torch.split(convolved, self._sizes, dim=-1)
        apply_rule = gated_delta_rule_recurrent if one_row else gated_delta_rule_chunked
        step = functional.softplus(inputs.step.float() + self._step_bias)
        output = apply_rule(
            query.view(num_tokens, -1, self._key_dim),
            key.view(num_tokens, -1, self._key_dim),
            value.view(num_tokens, -1, self._value_dim),
            step * self._negative_rate,
            inputs.strength.float().sigmoid(),
            state.delta,
        )
        gate = inputs.gate.view(output.shape)
        gated = gated_rms_norm(output, gate, self._norm_scale, self._epsilon)
        return gated.view(num_tokens, -1)


def _split_sizes(config: DeltaNetConfig) -> dict[str, int]:
    return {
        "in_proj_qkv": config.num_conv_channels,
        "in_proj_z": config.value_size,
        "in_proj_b": config.linear_num_value_heads,
        "in_proj_a": config.linear_num_value_heads,
    }

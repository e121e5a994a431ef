"""Starts a network as one that can already copy: what followed a word before is what it expects now.

From random weights such a circuit takes very long to be found, and without it no name can be written. Here it stands from
the first step, in two layers that training then does with as it likes: a DeltaNet layer whose first head says which
token came before, and an attention layer whose first heads look for the place that came after the present token.
"""

import math

import torch
from torch import Tensor, nn

from .config import NanoConfig
from .layers import DeltaNet, GatedAttention

# The first value of every embedding is the same, so that projections can have a constant part.
_CONSTANT = 4.0
_OPEN_GATE = 0.5


@torch.no_grad()
def begin_with_induction(
    embedding: Tensor,
    head: Tensor,
    pairs: list[tuple[DeltaNet, GatedAttention]],
    config: NanoConfig,
) -> None:
    """Set embedding [V, H], head [V, H] and each pair of layers up; of the layers only the heads that it takes."""
    nn.init.normal_(embedding)
    embedding[:, 0] = _CONSTANT
    head.copy_(embedding * 0.02)
    head[:, 0] = 0.0
    for delta_net, attention in pairs:
        identity, written = _projections(config)
        _tell_previous(delta_net, identity, written, config)
        _look_after(attention, identity, written, config)


def _projections(config: NanoConfig) -> tuple[Tensor, Tensor]:
    """Draw how a token is told apart, [V, H], and where in the rows the previous one is written, [H, V]."""
    scale = 1 / math.sqrt(config.hidden_size)
    identity = torch.randn(config.value_dim, config.hidden_size) * scale
    written = torch.randn(config.hidden_size, config.value_dim) * scale
    identity[:, 0] = 0.0
    written[0] = 0.0
    return identity, written


def _tell_previous(
    layer: DeltaNet, identity: Tensor, written: Tensor, config: NanoConfig
) -> None:
    """Have the first head write, at once forgotten, the value of the row before."""
    keys, width = config.delta_heads * config.key_dim, config.value_dim
    weight, kernel = layer.in_proj_qkv.weight, layer.conv1d.weight
    # A query that equals its key reads what has just been written.
    weight[: config.key_dim] = weight[keys : keys + config.key_dim]
    kernel[: config.key_dim] = kernel[keys : keys + config.key_dim]
    weight[2 * keys : 2 * keys + width] = identity * 2
    kernel[2 * keys : 2 * keys + width, 0] = torch.eye(config.kernel)[-2]
    layer.in_proj_a.weight[0] = 0.0
    layer.dt_bias[0] = 2.0
    layer.A_log[0] = math.log(2.0)
    layer.in_proj_z.weight[:width] = 0.0
    layer.in_proj_z.weight[:width, 0] = _OPEN_GATE
    layer.out_proj.weight[:, :width] = written * 0.5


def _look_after(
    layer: GatedAttention, identity: Tensor, written: Tensor, config: NanoConfig
) -> None:
    """Have the heads of the first key look for rows that follow the present token, and say what stands there."""
    size, turned = config.head_dim, config.rotary_dim
    still = size - turned  # what the rotary embedding leaves as it is
    queries = layer.q_proj.weight.view(config.num_heads, 2 * size, config.hidden_size)
    outputs = layer.o_proj.weight.view(config.hidden_size, config.num_heads, size)
    keys, values = layer.k_proj.weight[:size], layer.v_proj.weight[:size]
    keys.mul_(0.1)
    keys[turned:] = written.T[:still] * 2
    values[:, 0] = 0.0
    for index in range(config.num_heads // config.num_kv_heads):
        queries[index, :size].mul_(0.1)
        queries[index, turned:size] = identity[:still] * 2
        queries[index, size:] = 0.0
        queries[index, size:, 0] = _OPEN_GATE
        outputs[:, index] = values.T * 0.5

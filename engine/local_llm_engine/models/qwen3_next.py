"""Qwen3-Next: three Gated DeltaNet layers for one of gated attention, and experts.

Differs from Qwen3.5 in how the inputs of a DeltaNet layer are projected: all of one key head, then all of
the next, where Qwen3.5 has all heads' queries, then all keys. Knows config.json and what a layer is made
of; decoder.py joins the layers.
"""

import torch
from torch import Tensor

from ..weights.loader import WeightLoader
from .attention import GatedAttention, gated_attention_shapes
from .config import DeltaNetConfig, ModelConfig
from .config_fields import ConfigFields
from .config_reading import (
    read_decoder,
    read_delta_net,
    read_experts,
    read_hybrid_layers,
    read_sparse_layers,
    refuse_other_options,
)
from .decoder import Architecture
from .gated_delta_net import DeltaInputs, GatedDeltaNet, gated_delta_net_shapes
from .layers import Projections, Shapes, ZeroCentredNorm, linear_shapes, within
from .rotary import read_rotary


def read_config(top: ConfigFields) -> ModelConfig:
    """Read config.json."""
    refuse_other_options(top, {"attention_bias": (False,)})
    layer_types = read_hybrid_layers(top)
    head_dim = top.whole("head_dim")
    return read_decoder(
        top,
        model_type=top.text("model_type"),
        layer_types=layer_types,
        head_dim=head_dim,
        rotary=read_rotary(top, head_dim, default_factor=0.25),
        delta_net=read_delta_net(top),
        experts=read_experts(
            top,
            sparse_layers=read_sparse_layers(top, len(layer_types)),
            norm_topk_prob=top.flag("norm_topk_prob", default=True),
            shared=True,
            fused=False,
        ),
    )


class InterleavedProjection:
    """A projection whose outputs lie key head by key head: of each query, key, values and gates; strengths and steps."""

    def __init__(self, config: DeltaNetConfig, loader: WeightLoader) -> None:
        """Take the weights that `_interleaved_sizes` names."""
        self._projections = Projections(loader, _interleaved_sizes(config))
        self._num_key_heads = config.linear_num_key_heads
        group = config.linear_num_value_heads // config.linear_num_key_heads
        values = group * config.linear_value_head_dim
        key_dim = config.linear_key_head_dim
        self._head_sizes = [key_dim, key_dim, values, values]
        self._gate_sizes = [group, group]

    def __call__(self, rows: Tensor) -> DeltaInputs:
        """Map rows [T, H].

        The outputs are put in order, and not the weights, which stay mapped as they are.
        """
        heads, gates = (
            projected.view(rows.shape[0], self._num_key_heads, -1)
            for projected in self._projections(rows)
        )
        query, key, value, gate = torch.split(heads, self._head_sizes, dim=-1)
        strength, step = torch.split(gates, self._gate_sizes, dim=-1)
        mixed = torch.cat([part.flatten(1) for part in (query, key, value)], dim=-1)
        return DeltaInputs(mixed, gate.flatten(1), strength.flatten(1), step.flatten(1))


def mixer_shapes(config: ModelConfig, layer: int) -> Shapes:
    """Name the tensors of one layer's token mixer."""
    if config.layer_types[layer] == "full_attention":
        return within("self_attn.", gated_attention_shapes(config))
    assert config.delta_net is not None
    sizes = _interleaved_sizes(config.delta_net)
    return within(
        "linear_attn.",
        {
            **linear_shapes(sizes, config.hidden_size, bias=False),
            **gated_delta_net_shapes(config.delta_net, config.hidden_size),
        },
    )


def make_mixer(
    config: ModelConfig, layer: int, loader: WeightLoader
) -> GatedAttention | GatedDeltaNet:
    """Take the weights that `mixer_shapes` names."""
    if config.layer_types[layer] == "full_attention":
        return GatedAttention(config, loader.within("self_attn."))
    assert config.delta_net is not None
    loader = loader.within("linear_attn.")
    inward = InterleavedProjection(config.delta_net, loader)
    return GatedDeltaNet(config.delta_net, loader, inward, config.rms_norm_eps)


def _interleaved_sizes(config: DeltaNetConfig) -> dict[str, int]:
    return {
        "in_proj_qkvz": config.num_conv_channels + config.value_size,
        "in_proj_ba": 2 * config.linear_num_value_heads,
    }


QWEN3_NEXT = Architecture(
    read_config=read_config,
    norm=ZeroCentredNorm,
    mixer_shapes=mixer_shapes,
    make_mixer=make_mixer,
)

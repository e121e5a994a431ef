"""Qwen3, dense and with experts: full attention with norms on query and key in every layer.

Knows config.json and what a layer is made of; decoder.py joins the layers.
"""

from dataclasses import replace

from ..weights.loader import WeightLoader
from .attention import Attention, attention_shapes
from .config import ModelConfig
from .config_fields import ConfigFields
from .config_reading import (
    read_decoder,
    read_experts,
    read_full_attention_layers,
    read_head_dim,
    read_sparse_layers,
    refuse_other_options,
)
from .decoder import Architecture
from .layers import Norm, Shapes, within
from .rotary import read_rotary


def read_config(top: ConfigFields) -> ModelConfig:
    """Read config.json."""
    refuse_other_options(top, {"use_sliding_window": (False,)})
    model_type = top.text("model_type")
    layer_types = read_full_attention_layers(top)
    head_dim = read_head_dim(top)
    bias = top.flag("attention_bias", default=False)
    experts = None
    if model_type == "qwen3_moe":
        experts = read_experts(
            top,
            sparse_layers=read_sparse_layers(top, len(layer_types)),
            norm_topk_prob=top.flag("norm_topk_prob", default=False),
            shared=False,
            fused=False,
        )
    config = read_decoder(
        top,
        model_type=model_type,
        layer_types=layer_types,
        head_dim=head_dim,
        rotary=read_rotary(top, head_dim),
        experts=experts,
    )
    return replace(config, qkv_bias=bias, output_bias=bias)


def mixer_shapes(config: ModelConfig, _: int) -> Shapes:
    """Name the tensors of one layer's token mixer."""
    return within("self_attn.", attention_shapes(config, normed=True))


def make_mixer(config: ModelConfig, _: int, loader: WeightLoader) -> Attention:
    """Take the weights that `mixer_shapes` names."""
    return Attention(config, loader.within("self_attn."), normed=True)


QWEN3 = Architecture(
    read_config=read_config,
    norm=Norm,
    mixer_shapes=mixer_shapes,
    make_mixer=make_mixer,
)

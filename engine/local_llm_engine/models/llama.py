"""Llama and what is built exactly like it (SmolLM2 among others): full attention and a dense network in every layer.

Knows config.json and what a layer is made of; decoder.py joins the layers.
"""

from dataclasses import replace

from ..weights.loader import WeightLoader
from .attention import Attention, attention_shapes
from .config import ModelConfig
from .config_fields import ConfigFields
from .config_reading import (
    read_decoder,
    read_full_attention_layers,
    read_head_dim,
    refuse_other_options,
)
from .decoder import Architecture
from .layers import Norm, Shapes, within
from .rotary import read_rotary

# What Llama's first files leave out.
_DEFAULT_THETA = 10_000.0


def read_config(top: ConfigFields) -> ModelConfig:
    """Read config.json."""
    refuse_other_options(top, {})
    head_dim = read_head_dim(top)
    bias = top.flag("attention_bias", default=False)
    # The first Llamas have a key head for each query head, and do not say so.
    num_key_value_heads = (
        None if "num_key_value_heads" in top else top.whole("num_attention_heads")
    )
    config = read_decoder(
        top,
        model_type=top.text("model_type"),
        layer_types=read_full_attention_layers(top),
        head_dim=head_dim,
        rotary=read_rotary(top, head_dim, default_theta=_DEFAULT_THETA),
        num_key_value_heads=num_key_value_heads,
    )
    return replace(
        config,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=top.flag("mlp_bias", default=False),
    )


def mixer_shapes(config: ModelConfig, _: int) -> Shapes:
    """Name the tensors of one layer's token mixer."""
    return within("self_attn.", attention_shapes(config))


def make_mixer(config: ModelConfig, _: int, loader: WeightLoader) -> Attention:
    """Take the weights that `mixer_shapes` names."""
    return Attention(config, loader.within("self_attn."))


LLAMA = Architecture(
    read_config=read_config,
    norm=Norm,
    mixer_shapes=mixer_shapes,
    make_mixer=make_mixer,
)

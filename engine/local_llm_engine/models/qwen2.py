"""Qwen2 and 2.5: Llama's layers, with a bias on query, key and value.

Knows config.json alone.
"""

from dataclasses import replace

from .config import ModelConfig
from .config_fields import ConfigFields
from .config_reading import (
    read_decoder,
    read_full_attention_layers,
    read_head_dim,
    refuse_other_options,
)
from .decoder import Architecture
from .llama import LLAMA
from .rotary import read_rotary


def read_config(top: ConfigFields) -> ModelConfig:
    """Read config.json."""
    refuse_other_options(top, {"use_sliding_window": (False,)})
    head_dim = read_head_dim(top)
    config = read_decoder(
        top,
        model_type=top.text("model_type"),
        layer_types=read_full_attention_layers(top),
        head_dim=head_dim,
        rotary=read_rotary(top, head_dim),
    )
    return replace(config, qkv_bias=True)


QWEN2: Architecture = replace(LLAMA, read_config=read_config)

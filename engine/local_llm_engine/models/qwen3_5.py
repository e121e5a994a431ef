"""Qwen3.5, 3.6 and 3.8, text, dense and with experts: three Gated DeltaNet layers for one of gated attention.

Knows config.json and what a layer is made of; decoder.py joins the layers.
"""

from ..weights.loader import WeightLoader
from .attention import GatedAttention, gated_attention_shapes
from .config import ModelConfig
from .config_fields import ConfigFields
from .config_reading import (
    read_decoder,
    read_delta_net,
    read_experts,
    read_hybrid_layers,
    refuse_other_options,
)
from .decoder import Architecture
from .gated_delta_net import (
    GatedDeltaNet,
    SplitProjection,
    gated_delta_net_shapes,
    split_projection_shapes,
)
from .layers import Shapes, ZeroCentredNorm, within
from .rotary import read_rotary

# Models that also see: config.json describes their text model in a section of its own.
_WHOLE_TYPES = ("qwen3_5", "qwen3_5_moe")


def read_config(top: ConfigFields) -> ModelConfig:
    """Read config.json; what a whole model says outside its text model goes first where both say it."""
    model_type = top.text("model_type")
    is_whole = model_type in _WHOLE_TYPES
    text = top.section("text_config") if is_whole else top
    text_type = f"{model_type}_text" if is_whole else model_type
    for fields, own_type in ((top, model_type), (text, text_type)):
        refuse_other_options(
            fields,
            {
                "model_type": (own_type,),
                "output_gate_type": ("silu", "swish"),
                "attention_bias": (False,),
                "attn_output_gate": (True,),
            },
        )
    layer_types = read_hybrid_layers(text)
    head_dim = text.whole("head_dim")
    experts = None
    if "moe" in model_type:
        experts = read_experts(
            text,
            sparse_layers=frozenset(range(len(layer_types))),
            norm_topk_prob=True,
            shared=True,
            fused=True,
        )
    return read_decoder(
        text,
        model_type=model_type,
        layer_types=layer_types,
        head_dim=head_dim,
        rotary=read_rotary(text, head_dim, default_factor=0.25),
        delta_net=read_delta_net(text),
        experts=experts,
        tied=(top if "tie_word_embeddings" in top else text).flag(
            "tie_word_embeddings", default=False
        ),
    )


def mixer_shapes(config: ModelConfig, layer: int) -> Shapes:
    """Name the tensors of one layer's token mixer."""
    if config.layer_types[layer] == "full_attention":
        return within("self_attn.", gated_attention_shapes(config))
    assert config.delta_net is not None
    return within(
        "linear_attn.",
        {
            **split_projection_shapes(config.delta_net, config.hidden_size),
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
    inward = SplitProjection(config.delta_net, loader)
    return GatedDeltaNet(config.delta_net, loader, inward, config.rms_norm_eps)


QWEN3_5 = Architecture(
    read_config=read_config,
    norm=ZeroCentredNorm,
    mixer_shapes=mixer_shapes,
    make_mixer=make_mixer,
)

"""Reads from config.json what architectures have in common; each of them adds what is its own.

Knows the options that this engine computes and refuses all others by name.
"""

from collections.abc import Mapping

from ..errors import UnsupportedModelError, shown
from .config import DeltaNetConfig, ExpertsConfig, LayerType, ModelConfig, RotaryConfig
from .config_fields import ConfigFields

_LAYER_TYPES: tuple[LayerType, ...] = ("linear_attention", "full_attention")
_MAX_LAYERS = 1024
# Of all layers together; the largest published models have a fifth of it.
_MAX_EXPERTS = 131_072


def refuse_other_options(
    fields: ConfigFields, supported: Mapping[str, tuple[object, ...]]
) -> None:
    """Refuse options that would change the arithmetic in ways that are not computed here.

    `supported` are the values that an option may have where it is given.

    Raises:
        UnsupportedModelError: an option has another value; the message names it and what is supported.
    """
    for name, values in {"hidden_act": ("silu", "swish"), **supported}.items():
        if name in fields and fields.get(name) not in values:
            raise UnsupportedModelError(
                f"{fields.file}: {fields.name_of(name)} is {shown(fields.get(name))}; supported is {values[0]!r}"
            )


def read_decoder(
    text: ConfigFields,
    *,
    model_type: str,
    layer_types: tuple[LayerType, ...],
    head_dim: int,
    rotary: RotaryConfig,
    experts: ExpertsConfig | None = None,
    delta_net: DeltaNetConfig | None = None,
    num_key_value_heads: int | None = None,
    tied: bool | None = None,
) -> ModelConfig:
    """Read what every architecture has, without biases, and add what one of them has read.

    The number of key heads and whether the head is tied are read here where they are None.

    Raises:
        ModelLoadError: a field is missing or out of its range.
    """
    num_layers = len(layer_types)
    has_dense_layers = experts is None or len(experts.sparse_layers) < num_layers
    if tied is None:
        tied = text.flag("tie_word_embeddings", default=False)
    return ModelConfig(
        model_type=model_type,
        vocab_size=text.whole("vocab_size"),
        hidden_size=text.whole("hidden_size"),
        intermediate_size=text.whole("intermediate_size") if has_dense_layers else None,
        num_hidden_layers=num_layers,
        layer_types=layer_types,
        num_attention_heads=text.whole("num_attention_heads"),
        num_key_value_heads=num_key_value_heads or _num_key_value_heads(text),
        head_dim=head_dim,
        rotary=rotary,
        rms_norm_eps=text.number("rms_norm_eps", low=0.0),
        max_position_embeddings=text.whole("max_position_embeddings"),
        tie_word_embeddings=tied,
        delta_net=delta_net,
        experts=experts,
    )


def read_delta_net(text: ConfigFields) -> DeltaNetConfig:
    """Read the numbers of Gated DeltaNet layers.

    Raises:
        ModelLoadError: a field is missing or out of its range.
    """
    _require_multiple(text, "linear_num_value_heads", "linear_num_key_heads")
    return DeltaNetConfig(
        linear_num_key_heads=text.whole("linear_num_key_heads"),
        linear_num_value_heads=text.whole("linear_num_value_heads"),
        linear_key_head_dim=text.whole("linear_key_head_dim"),
        linear_value_head_dim=text.whole("linear_value_head_dim"),
        linear_conv_kernel_dim=text.whole("linear_conv_kernel_dim", low=2),
    )


def read_experts(
    text: ConfigFields,
    *,
    sparse_layers: frozenset[int],
    norm_topk_prob: bool,
    shared: bool,
    fused: bool,
) -> ExpertsConfig:
    """Read the numbers of layers that choose among experts; `shared`: beside an expert that all rows pass.

    Raises:
        ModelLoadError: a field is missing or out of its range.
    """
    # Newer files of transformers have the second name.
    name = "num_local_experts" if "num_local_experts" in text else "num_experts"
    num_experts = text.whole(name, high=_MAX_EXPERTS // max(1, len(sparse_layers)))
    return ExpertsConfig(
        num_experts=num_experts,
        num_experts_per_tok=text.whole("num_experts_per_tok", high=num_experts),
        moe_intermediate_size=text.whole("moe_intermediate_size"),
        norm_topk_prob=norm_topk_prob,
        shared_expert_intermediate_size=(
            text.whole("shared_expert_intermediate_size") if shared else None
        ),
        sparse_layers=sparse_layers,
        fused=fused,
    )


def read_sparse_layers(text: ConfigFields, num_layers: int) -> frozenset[int]:
    """Read which layers choose among experts: every `decoder_sparse_step`-th but for `mlp_only_layers`.

    Raises:
        ModelLoadError: a field is out of its range.
    """
    step = text.whole("decoder_sparse_step") if "decoder_sparse_step" in text else 1
    dense = text.get("mlp_only_layers") or []
    if not isinstance(dense, list) or any(type(index) is not int for index in dense):
        raise text.error("mlp_only_layers", "a list of indices of layers")
    every = frozenset(range(step - 1, num_layers, step))
    return every.difference(dense)


def read_hybrid_layers(text: ConfigFields) -> tuple[LayerType, ...]:
    """Read `layer_types`, or spell `full_attention_interval` out: every n-th layer attends fully.

    Raises:
        ModelLoadError: a field is missing or out of its range.
        UnsupportedModelError: there are layers of another kind.
    """
    if "layer_types" in text:
        return _layer_types(text, _LAYER_TYPES)
    interval = (
        text.whole("full_attention_interval")
        if "full_attention_interval" in text
        else 4
    )
    return tuple(
        _LAYER_TYPES[(layer + 1) % interval == 0] for layer in range(_num_layers(text))
    )


def read_full_attention_layers(text: ConfigFields) -> tuple[LayerType, ...]:
    """Read how many layers there are, all of which attend fully.

    Raises:
        ModelLoadError: a field is missing or out of its range.
        UnsupportedModelError: there are layers of another kind.
    """
    if "layer_types" in text:
        return _layer_types(text, ("full_attention",))
    types: tuple[LayerType, ...] = ("full_attention",)
    return types * _num_layers(text)


def read_head_dim(text: ConfigFields) -> int:
    """Read `head_dim`; where there is none, the heads divide the hidden size.

    Raises:
        ModelLoadError: it is out of its range.
    """
    if "head_dim" in text:
        return text.whole("head_dim")
    _require_multiple(text, "hidden_size", "num_attention_heads")
    return text.whole("hidden_size") // text.whole("num_attention_heads")


def _num_layers(text: ConfigFields) -> int:
    return text.whole("num_hidden_layers", high=_MAX_LAYERS)


def _layer_types(
    text: ConfigFields, known: tuple[LayerType, ...]
) -> tuple[LayerType, ...]:
    num_layers = _num_layers(text)
    types = text.get("layer_types")
    if not isinstance(types, list) or len(types) != num_layers:
        raise text.error(
            "layer_types", f"a list of {num_layers} layer types, one for each layer"
        )
    for kind in types:
        if kind not in known:
            raise UnsupportedModelError(
                f"{text.file}: {text.name_of('layer_types')} holds {shown(kind)}; supported are {', '.join(known)}"
            )
    return tuple(types)


def _num_key_value_heads(text: ConfigFields) -> int:
    _require_multiple(text, "num_attention_heads", "num_key_value_heads")
    return text.whole("num_key_value_heads")


def _require_multiple(text: ConfigFields, many: str, few: str) -> None:
    """Refuse two counts of which the larger is no multiple of the smaller."""
    if text.whole(many) % text.whole(few):
        raise text.error(many, f"a multiple of {few}, which is {text.get(few)}")

"""What config.json says about a model, read once, field by field, into a frozen value.

Knows the options that this engine computes and refuses all others by name; knows no weights.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from ..errors import UnsupportedModelError
from .config_fields import ConfigFields

type LayerType = Literal["linear_attention", "full_attention"]

CONFIG_FILE = "config.json"
MODEL_TYPES = ("qwen3_5", "qwen3_5_text")
_LAYER_TYPES: tuple[LayerType, ...] = ("linear_attention", "full_attention")
_MAX_LAYERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The numbers of a hybrid of Gated DeltaNet and gated attention; names as in config.json.

    `rotary_dim` is how many of a head's values the rotary embedding turns.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    layer_types: tuple[LayerType, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary_dim: int
    rope_theta: float
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    tie_word_embeddings: bool

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read and check a model folder's config.json.

        Raises:
            ModelLoadError: the file is missing or no JSON, or a field is missing or out of its range.
            UnsupportedModelError: the model is of a kind, or has an option, that is not computed here.
        """
        top = ConfigFields.read(folder / CONFIG_FILE)
        model_type = top.text("model_type")
        if model_type not in MODEL_TYPES:
            raise UnsupportedModelError(
                f"{top.file}: model_type is {model_type!r}; known are {', '.join(MODEL_TYPES)}"
            )
        text = top if model_type == "qwen3_5_text" else top.section("text_config")
        for fields in (top, text):
            _refuse_unsupported(fields)
        tied = (top if "tie_word_embeddings" in top else text).flag(
            "tie_word_embeddings", default=False
        )
        return cls._of_text_model(text, model_type, tied)

    @classmethod
    def _of_text_model(cls, text: ConfigFields, model_type: str, tied: bool) -> Self:
        """Read what describes the text model alone."""
        rope = text.section("rope_parameters") if "rope_parameters" in text else text
        num_layers = text.whole("num_hidden_layers", high=_MAX_LAYERS)
        head_dim = text.whole("head_dim")
        _require_multiple(text, "num_attention_heads", "num_key_value_heads")
        _require_multiple(text, "linear_num_value_heads", "linear_num_key_heads")
        return cls(
            model_type=model_type,
            vocab_size=text.whole("vocab_size"),
            hidden_size=text.whole("hidden_size"),
            intermediate_size=text.whole("intermediate_size"),
            num_hidden_layers=num_layers,
            layer_types=_layer_types(text, num_layers),
            num_attention_heads=text.whole("num_attention_heads"),
            num_key_value_heads=text.whole("num_key_value_heads"),
            head_dim=head_dim,
            rotary_dim=_rotary_dim(text, rope, head_dim),
            rope_theta=rope.number("rope_theta", low=1.0),
            linear_num_key_heads=text.whole("linear_num_key_heads"),
            linear_num_value_heads=text.whole("linear_num_value_heads"),
            linear_key_head_dim=text.whole("linear_key_head_dim"),
            linear_value_head_dim=text.whole("linear_value_head_dim"),
            linear_conv_kernel_dim=text.whole("linear_conv_kernel_dim", low=2),
            rms_norm_eps=text.number("rms_norm_eps", low=0.0),
            max_position_embeddings=text.whole("max_position_embeddings"),
            tie_word_embeddings=tied,
        )


def _refuse_unsupported(fields: ConfigFields) -> None:
    """Refuse the options that would change the arithmetic in ways that are not computed here."""
    if "quantization_config" in fields:
        quantization = fields.section("quantization_config")
        raise UnsupportedModelError(
            f"{fields.file}: the weights are quantized ({quantization.get('quant_method')!r}); "
            "supported are unquantized BF16, F16 and F32 weights"
        )
    for name, supported in (
        ("hidden_act", ("silu", "swish")),
        ("output_gate_type", ("silu", "swish")),
        ("attention_bias", (False,)),
        ("attn_output_gate", (True,)),
    ):
        if name in fields and fields.get(name) not in supported:
            raise UnsupportedModelError(
                f"{fields.file}: {fields.name_of(name)} is {fields.get(name)!r}; supported is {supported[0]!r}"
            )
    for name in ("rope_parameters", "rope_scaling"):
        if name in fields:
            _refuse_scaled_rope(fields.section(name))


def _refuse_scaled_rope(rope: ConfigFields) -> None:
    for name in ("rope_type", "type"):
        if name in rope and rope.get(name) not in ("default", "mrope"):
            raise UnsupportedModelError(
                f"{rope.file}: {rope.name_of(name)} is {rope.get(name)!r}; supported is 'default'"
            )


def _layer_types(text: ConfigFields, num_layers: int) -> tuple[LayerType, ...]:
    """Read `layer_types`, or spell `full_attention_interval` out: every n-th layer attends fully."""
    if "layer_types" not in text:
        interval = (
            text.whole("full_attention_interval")
            if "full_attention_interval" in text
            else 4
        )
        return tuple(
            _LAYER_TYPES[(layer + 1) % interval == 0] for layer in range(num_layers)
        )
    types = text.get("layer_types")
    if not isinstance(types, list) or len(types) != num_layers:
        raise text.error(
            "layer_types", f"a list of {num_layers} layer types, one for each layer"
        )
    unknown = next((kind for kind in types if kind not in _LAYER_TYPES), None)
    if unknown is not None:
        raise UnsupportedModelError(
            f"{text.file}: {text.name_of('layer_types')} holds {unknown!r}; supported are {', '.join(_LAYER_TYPES)}"
        )
    return tuple(types)


def _rotary_dim(text: ConfigFields, rope: ConfigFields, head_dim: int) -> int:
    """Return head_dim times `partial_rotary_factor` (0.25 where it is not given, as the architecture has it)."""
    fields = rope if "partial_rotary_factor" in rope else text
    factor = (
        fields.number("partial_rotary_factor", low=0.0, high=1.0)
        if "partial_rotary_factor" in fields
        else 0.25
    )
    rotary_dim = int(head_dim * factor)
    if rotary_dim < 2 or rotary_dim % 2:
        raise fields.error(
            "partial_rotary_factor",
            f"a part of head_dim {head_dim} that is an even number of values",
        )
    return rotary_dim


def _require_multiple(text: ConfigFields, many: str, few: str) -> None:
    if text.whole(many) % text.whole(few):
        raise text.error(many, f"a multiple of {few}, which is {text.get(few)}")

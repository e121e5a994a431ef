"""Which matrix of a model gets which of our own formats, and what stays as it is; one table.

Knows tensors by the ends of their names; reads no weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..config import Weights
from ..weights.linear import Int4Linear
from ..weights.quantized import QuantizedInfo, StoredInfo, TensorSource
from ..weights.quantizing import Format, takes_over
from ..weights.runtime_matrix import Int4Layout

# Rows of an int4 matrix come in blocks, of the widest machine's at most.
_BLOCK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What tensors whose names end so become with `weights` int4 and int8; None: they stay in the model's dtype."""

    endings: tuple[str, ...]
    int4: Format | None
    int8: Format | None
    reason: str


# The first rule that fits counts.
RULES: tuple[Rule, ...] = (
    Rule(
        endings=("embed_tokens.weight", "lm_head.weight"),
        int4="int8",
        int8="int8",
        reason="every word passes here twice, and its errors are seen at once; rows are also looked up one by one",
    ),
    Rule(
        endings=(
            "q_proj.weight",
            "k_proj.weight",
            "v_proj.weight",
            "o_proj.weight",
            "in_proj_qkv.weight",
            "in_proj_z.weight",
            "in_proj_qkvz.weight",
            "out_proj.weight",
        ),
        int4="int4",
        int8="int8",
        reason="the large matrices of the token mixers",
    ),
    Rule(
        endings=(
            "gate_proj.weight",
            "up_proj.weight",
            "down_proj.weight",
            "experts.gate_up_proj",
            "experts.down_proj",
        ),
        int4="int4",
        int8="int8",
        reason="the feed-forward networks and experts, most of all weights",
    ),
    Rule(
        endings=(
            "in_proj_a.weight",
            "in_proj_b.weight",
            "in_proj_ba.weight",
            "shared_expert_gate.weight",
        ),
        int4=None,
        int8=None,
        reason="gates: a row or two a head, whose errors add up along the whole prompt",
    ),
    Rule(
        endings=("",),
        int4=None,
        int8=None,
        reason="norms, biases, convolutions, decay rates and routers: small, and computed in float32",
    ),
)


def formats_of(
    source: TensorSource,
    used: Iterable[StoredInfo],
    weights: Weights,
    layout: Int4Layout,
) -> Mapping[str, Format]:
    """Choose a format for each tensor that gets one.

    "auto" takes over what a checkpoint has in 4-bit codes that fit, where they are quick, and leaves
    everything else as it is.
    """
    if weights == "bf16" or (weights == "auto" and not layout.has_kernel):
        return {}
    if weights == "auto":
        return {
            info.name: "int4"
            for info in used
            if isinstance(info, QuantizedInfo)
            and _fits_int4(info)
            and takes_over(source.stored(info.name))
        }
    chosen = {info.name: _chosen(info, weights) for info in used}
    return {name: own for name, own in chosen.items() if own is not None}


def main_format(formats: Mapping[str, Format]) -> Format | None:
    """Name the format of most of a model's weights; None: they stay as they are."""
    if not formats:
        return None
    return "int4" if "int4" in formats.values() else "int8"


def _chosen(info: StoredInfo, weights: Format) -> Format | None:
    rule = next(rule for rule in RULES if info.name.endswith(rule.endings))
    own = rule.int4 if weights == "int4" else rule.int8
    # What does not come in whole groups and blocks is small, and loses nothing by more bits.
    return "int8" if own == "int4" and not _fits_int4(info) else own


def _fits_int4(info: StoredInfo) -> bool:
    num_rows, num_columns = info.shape[-2:]
    return num_rows % _BLOCK == 0 and num_columns % Int4Linear.GROUP == 0

"""The rotary embedding: what config.json says of it, and how fast each pair of a head's values turns."""

import math

import torch
from torch import Tensor

from ..errors import UnsupportedModelError, shown
from .config import Llama3Scaling, RotaryConfig
from .config_fields import ConfigFields

_DEFAULT_TYPES = ("default", "mrope")
_SCALED_TYPE = "llama3"


def read_rotary(
    text: ConfigFields,
    head_dim: int,
    *,
    default_factor: float = 1.0,
    default_theta: float | None = None,
) -> RotaryConfig:
    """Read the rotary embedding in its older and its newer form.

    It turns `default_factor` of a head where nothing else is said; `default_theta` None has no default.

    Raises:
        ModelLoadError: a field is missing or out of its range.
        UnsupportedModelError: positions are scaled in a way that is not computed here.
    """
    rope = text.section("rope_parameters") if "rope_parameters" in text else text
    theta = default_theta
    if theta is None or "rope_theta" in rope:
        theta = rope.number("rope_theta", low=1.0)
    return RotaryConfig(
        dim=_rotary_dim(text, rope, head_dim, default_factor),
        theta=theta,
        scaling=_rope_scaling(text),
    )


def rotary_frequencies(rotary: RotaryConfig) -> Tensor:
    """Return theta ** (-2 i / R) of pair i, in radians a position, float32 [R / 2] (arXiv:2104.09864)."""
    exponents = torch.arange(0, rotary.dim, 2, dtype=torch.float32) / rotary.dim
    frequencies = 1.0 / rotary.theta**exponents
    if rotary.divisors is not None:
        return frequencies / torch.tensor(rotary.divisors)
    return _stretched(frequencies, rotary.scaling) if rotary.scaling else frequencies


def _rotary_dim(
    text: ConfigFields, rope: ConfigFields, head_dim: int, default_factor: float
) -> int:
    """Return head_dim times `partial_rotary_factor`."""
    fields = rope if "partial_rotary_factor" in rope else text
    factor = (
        fields.number("partial_rotary_factor", low=0.0, high=1.0)
        if "partial_rotary_factor" in fields
        else default_factor
    )
    rotary_dim = int(head_dim * factor)
    if rotary_dim < 2 or rotary_dim % 2:
        raise fields.error(
            "partial_rotary_factor",
            f"a part of head_dim {head_dim} that is an even number of values",
        )
    return rotary_dim


def _rope_scaling(text: ConfigFields) -> Llama3Scaling | None:
    scaling = None
    for name in ("rope_parameters", "rope_scaling"):
        if name in text:
            scaling = _scaling_of(text.section(name)) or scaling
    return scaling


def _scaling_of(rope: ConfigFields) -> Llama3Scaling | None:
    kinds = {name: rope.get(name) for name in ("rope_type", "type") if name in rope}
    for name, kind in kinds.items():
        if kind not in (*_DEFAULT_TYPES, _SCALED_TYPE):
            raise UnsupportedModelError(
                f"{rope.file}: {rope.name_of(name)} is {shown(kind)}; supported are 'default' and {_SCALED_TYPE!r}"
            )
    if _SCALED_TYPE not in kinds.values():
        return None
    low = rope.number("low_freq_factor", low=0.0)
    high = rope.number("high_freq_factor", low=0.0)
    if high <= low:
        raise rope.error("high_freq_factor", f"a number above low_freq_factor, {low}")
    return Llama3Scaling(
        factor=rope.number("factor", low=1.0),
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=rope.whole("original_max_position_embeddings"),
    )


def _stretched(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Slow down the pairs that turn seldom within the first training's context (arXiv:2407.21783, section 3.4.2).

    Those that turn `high_freq_factor` times or more stay, those that turn `low_freq_factor` times or
    less become `factor` times slower, and between them the one passes into the other.
    """
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    width = scaling.high_freq_factor - scaling.low_freq_factor
    kept = ((turns - scaling.low_freq_factor) / width).clamp(0.0, 1.0)
    return frequencies * (kept + (1.0 - kept) / scaling.factor)

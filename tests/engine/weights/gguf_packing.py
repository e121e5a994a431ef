"""Packs values that a format of GGUF can hold exactly into its blocks, all of them with one scale."""

from collections.abc import Callable, Mapping
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Type
import numpy as np
from numpy.typing import NDArray

type Array = NDArray[Any]

# A power of two: every product with it is exact.
SCALE = 2.0**-5
_PLAIN = (Type.F32, Type.F16, Type.BF16)
_LEVELS: Mapping[Type, Array] = {
    Type.Q4_0: np.arange(-8, 8),
    Type.Q4_1: np.arange(-8, 8),
    Type.Q5_0: np.arange(-16, 16),
    Type.Q5_1: np.arange(-16, 16),
    Type.Q8_0: np.arange(-127, 128),
    Type.Q2_K: np.arange(-2, 2),
    Type.Q3_K: np.arange(-4, 4),
    Type.Q4_K: np.arange(-8, 8),
    Type.Q5_K: np.arange(-16, 16),
    Type.Q6_K: np.arange(-32, 32),
    Type.IQ4_NL: np.array(gguf.quants.IQ4_NL.kvalues),
    Type.IQ4_XS: np.array(gguf.quants.IQ4_NL.kvalues),
}
FORMATS = (*_PLAIN, *_LEVELS)
# The widest levels of the non-linear formats are as far apart as those of no other.
_SCALES: Mapping[Type, float] = {
    # The coarsest ones must reach as far as the others.
    Type.Q2_K: SCALE * 4,
    Type.Q3_K: SCALE * 2,
    Type.Q8_0: SCALE / 8,
    Type.Q6_K: SCALE / 4,
    Type.IQ4_NL: SCALE / 16,
    Type.IQ4_XS: SCALE / 16,
}


def representable(values: Array, kind: Type) -> Array:
    """Return the nearest values that a format holds exactly."""
    if kind in _PLAIN:
        return gguf.dequantize(gguf.quantize(values, kind), kind).reshape(values.shape)
    return (_LEVELS[kind][_codes(values, kind)] * _scale(kind)).astype(np.float32)


def pack(values: Array, kind: Type) -> Array:
    """Pack float32 values [..., I] into the bytes of a format; those of F32 and F16 stay numbers."""
    if kind in _PLAIN:
        return gguf.quantize(values, kind)
    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    codes = _codes(values, kind).reshape(-1, size).astype(np.uint8)
    packed = _PACK[kind](codes)
    assert packed.shape == (len(codes), nbytes)
    found = packed.reshape(*values.shape[:-1], -1)
    if np.array_equal(values, representable(values, kind)):
        assert np.array_equal(gguf.dequantize(found, kind), values)
    return found


def _scale(kind: Type) -> float:
    return _SCALES.get(kind, SCALE)


def _codes(values: Array, kind: Type) -> Array:
    levels = _LEVELS[kind] * _scale(kind)
    middles = (levels[1:] + levels[:-1]) / 2
    return np.searchsorted(middles, values)


def _half(codes: Array, value: float) -> Array:
    return np.full((len(codes), 1), value, np.float16).view(np.uint8)


def _nibbles(codes: Array, width: int) -> Array:
    """Put the codes of two runs of `width` into the low and the high halves of as many bytes."""
    pairs = (codes & 15).reshape(len(codes), -1, 2, width)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(codes), -1)


def _bits(codes: Array, width: int, run: int) -> Array:
    """Put the codes of 8 / width runs into bytes, the first into the lowest bits."""
    runs = codes.reshape(len(codes), -1, 8 // width, run)
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return np.bitwise_or.reduce(runs << shifts, axis=2).reshape(len(codes), -1)


def _join(*parts: Array) -> Array:
    return np.concatenate(parts, axis=1)


def _constant(codes: Array, count: int, value: int) -> Array:
    return np.full((len(codes), count), value, np.uint8)


def _fifths(codes: Array) -> Array:
    return np.packbits(codes >> 4, axis=1, bitorder="little")


def _scales(codes: Array, minimum: int) -> Array:
    """Eight scales of 1 and eight minima, 6 bits each."""
    return _join(
        _constant(codes, 4, 1),
        _constant(codes, 4, minimum),
        _constant(codes, 4, 1 | (minimum & 15) << 4),
    ) | _join(
        _constant(codes, 4, 0),
        _constant(codes, 4, minimum >> 4 << 6),
        _constant(codes, 4, 0),
    )


_PACK: Mapping[Type, Callable[[Array], Array]] = {
    Type.Q4_0: lambda codes: _join(_half(codes, SCALE), _nibbles(codes, 16)),
    Type.Q4_1: lambda codes: _join(
        _half(codes, SCALE), _half(codes, -8 * SCALE), _nibbles(codes, 16)
    ),
    Type.Q5_0: lambda codes: _join(
        _half(codes, SCALE), _fifths(codes), _nibbles(codes, 16)
    ),
    Type.Q5_1: lambda codes: _join(
        _half(codes, SCALE),
        _half(codes, -16 * SCALE),
        _fifths(codes),
        _nibbles(codes, 16),
    ),
    Type.Q8_0: lambda codes: _join(_half(codes, _scale(Type.Q8_0)), codes - 127),
    Type.Q2_K: lambda codes: _join(
        # Sixteen scales of 1, and minima of 2.
        _constant(codes, 16, 0x21),
        _bits(codes, 2, 32),
        _half(codes, _scale(Type.Q2_K)),
        _half(codes, _scale(Type.Q2_K)),
    ),
    Type.Q3_K: lambda codes: _join(
        _bits(codes >> 2, 1, 32),
        _bits(codes & 3, 2, 32),
        # Scales of 33, of which 32 are taken off: the low halves 1, the high parts 2.
        _constant(codes, 8, 0x11),
        _constant(codes, 4, 0b10101010),
        _half(codes, _scale(Type.Q3_K)),
    ),
    Type.Q4_K: lambda codes: _join(
        _half(codes, SCALE), _half(codes, SCALE), _scales(codes, 8), _nibbles(codes, 32)
    ),
    Type.Q5_K: lambda codes: _join(
        _half(codes, SCALE),
        _half(codes, SCALE),
        _scales(codes, 16),
        _bits(codes >> 4, 1, 32),
        _nibbles(codes, 32),
    ),
    Type.Q6_K: lambda codes: _join(
        _nibbles(codes, 64),
        _bits(codes >> 4, 2, 32),
        _constant(codes, 16, 1),
        _half(codes, _scale(Type.Q6_K)),
    ),
    Type.IQ4_NL: lambda codes: _join(
        _half(codes, _scale(Type.IQ4_NL)), _nibbles(codes, 16)
    ),
    Type.IQ4_XS: lambda codes: _join(
        _half(codes, _scale(Type.IQ4_XS)),
        # Scales of 33, of which 32 are taken off: the low halves 1, the high parts 2.
        _constant(codes, 2, 0b10101010),
        _constant(codes, 4, 0x11),
        _nibbles(codes, 16),
    ),
}

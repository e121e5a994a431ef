"""From the blocks of a GGUF file to the numbers that they stand for.

The formulas are those of ggml (github.com/ggml-org/ggml, src/ggml-quants.c), in float32 and in their order
of operations: equal to the last bit. Knows no file.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from .gguf_types import BLOCK_TYPES_BY_NAME

# What the 16 codes of the non-linear formats stand for.
_NON_LINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)  # fmt: skip
# Formats of 4-bit codes with a scale for every so many of them.
INT4_TYPES = ("Q4_0", "Q4_1", "Q4_K")
INT4_GROUP = 32
_FLOATS: Mapping[str, torch.dtype] = MappingProxyType(
    {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
)


def as_floats(stored: Tensor, name: str) -> Tensor | None:
    """View bytes as the values that they are; None where the format packs its values."""
    dtype = _FLOATS.get(name)
    return None if dtype is None else stored.view(dtype)


def dequantize_rows(stored: Tensor, name: str) -> Tensor:
    """Turn rows of bytes, uint8 [n, bytes], into the values that they stand for, float32 [n, I]."""
    values = as_floats(stored, name)
    if values is not None:
        return values.float()
    blocks = stored.reshape(-1, BLOCK_TYPES_BY_NAME[name].block_bytes)
    return _DEQUANTIZE[name](blocks).reshape(stored.shape[0], -1)


def _half(blocks: Tensor, start: int) -> Tensor:
    """Read the float16 that starts at a byte of every block; [N, 1]."""
    own = blocks[:, start : start + 2].clone(memory_format=torch.contiguous_format)
    return own.view(torch.float16).float()


def _signed(stored: Tensor) -> Tensor:
    return stored.view(torch.int8).float()


def _halves_of_bytes(stored: Tensor) -> Tensor:
    """Part [N, G, W] bytes into [N, G, 2, W] codes of 4 bits: all low ones of a group, then all high ones."""
    return torch.stack((stored & 15, stored >> 4), dim=2)


def _bits(stored: Tensor, width: int) -> Tensor:
    """Part [N, G, W] bytes into [N, G, 8 / width, W] codes of `width` bits, the lowest ones first."""
    shifts = torch.arange(0, 8, width, dtype=torch.uint8)[:, None]
    return (stored[:, :, None] >> shifts) & ((1 << width) - 1)


def _fifth_bits(blocks: Tensor, start: int) -> Tensor:
    """Read the fifth bits of a block's 32 codes, one after the other; [N, 1, 2, 16]."""
    shifts = torch.arange(8, dtype=torch.uint8)
    bits = (blocks[:, start : start + 4, None] >> shifts) & 1
    return bits.reshape(-1, 1, 2, 16)


def _q4_0(blocks: Tensor) -> Tensor:
    codes = _halves_of_bytes(blocks[:, None, 2:]).flatten(1).float()
    return codes.sub_(8).mul_(_half(blocks, 0))


def _q4_1(blocks: Tensor) -> Tensor:
    codes = _halves_of_bytes(blocks[:, None, 4:]).flatten(1).float()
    return codes.mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q5_0(blocks: Tensor) -> Tensor:
    codes = _halves_of_bytes(blocks[:, None, 6:]) | _fifth_bits(blocks, 2) << 4
    return codes.flatten(1).float().sub_(16).mul_(_half(blocks, 0))


def _q5_1(blocks: Tensor) -> Tensor:
    codes = _halves_of_bytes(blocks[:, None, 8:]) | _fifth_bits(blocks, 4) << 4
    return codes.flatten(1).float().mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q8_0(blocks: Tensor) -> Tensor:
    return _signed(blocks[:, 2:]).mul_(_half(blocks, 0))


def _q2_k(blocks: Tensor) -> Tensor:
    packed = blocks[:, :16]
    scales = (packed & 15).float().mul_(_half(blocks, 80))
    minima = (packed >> 4).float().mul_(_half(blocks, 82))
    codes = _bits(blocks[:, 16:80].view(-1, 2, 32), 2).view(-1, 16, 16)
    return codes.float().mul_(scales[..., None]).sub_(minima[..., None])


def _q3_k(blocks: Tensor) -> Tensor:
    low = _halves_of_bytes(blocks[:, None, 96:104]).flatten(1)
    high = _bits(blocks[:, None, 104:108], 2).flatten(1)
    scales = (low | high << 4).float().sub_(32).mul_(_half(blocks, 108))
    codes = _bits(blocks[:, 32:96].view(-1, 2, 32), 2).view(-1, 16, 16)
    codes |= _bits(blocks[:, None, :32], 1).view(-1, 16, 16) << 2
    return codes.float().sub_(4).mul_(scales[..., None])


def _scales_and_minima(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Unpack the eight scales and minima of 6 bits each, and multiply them with the block's own; [N, 8, 1]."""
    low_scales, low_minima, high = blocks[:, 4:16].view(-1, 3, 4).unbind(1)
    scales = torch.cat((low_scales & 63, (high & 15) | ((low_scales >> 2) & 48)), dim=1)
    minima = torch.cat((low_minima & 63, (high >> 4) | ((low_minima >> 2) & 48)), dim=1)
    return (
        scales.float().mul_(_half(blocks, 0))[..., None],
        minima.float().mul_(_half(blocks, 2))[..., None],
    )


def _q4_k(blocks: Tensor) -> Tensor:
    scales, minima = _scales_and_minima(blocks)
    codes = _halves_of_bytes(blocks[:, 16:].view(-1, 4, 32)).view(-1, 8, 32)
    return codes.float().mul_(scales).sub_(minima)


def int4_codes(stored: Tensor, name: str) -> Tensor:
    """Unpack the codes of rows of bytes in one of INT4_TYPES, uint8 [n, I]."""
    info = BLOCK_TYPES_BY_NAME[name]
    blocks = stored.reshape(-1, info.block_bytes)
    packed = blocks[:, info.block_bytes - info.block_elements // 2 :]
    width = min(INT4_GROUP, info.block_elements // 2)
    runs = packed.reshape(blocks.shape[0], -1, width)
    return _halves_of_bytes(runs).reshape(stored.shape[0], -1)


def int4_scales(stored: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Return the scales of groups of INT4_GROUP codes, and what code 8 stands for; float32 [n, G]."""
    blocks = stored.reshape(-1, BLOCK_TYPES_BY_NAME[name].block_bytes)
    if name == "Q4_K":
        scales, minima = (part[..., 0] for part in _scales_and_minima(blocks))
        middles = scales * 8 - minima
    else:
        scales = _half(blocks, 0)
        middles = scales * 8 + _half(blocks, 2) if name == "Q4_1" else scales * 0
    num_rows = stored.shape[0]
    return scales.reshape(num_rows, -1), middles.reshape(num_rows, -1)


def _q5_k(blocks: Tensor) -> Tensor:
    scales, minima = _scales_and_minima(blocks)
    codes = _halves_of_bytes(blocks[:, 48:].view(-1, 4, 32)).view(-1, 8, 32)
    codes |= _bits(blocks[:, None, 16:48], 1).view(-1, 8, 32) << 4
    return codes.float().mul_(scales).sub_(minima)


def _q6_k(blocks: Tensor) -> Tensor:
    low = _halves_of_bytes(blocks[:, :128].view(-1, 2, 64)).view(-1, 8, 32)
    codes = low | _bits(blocks[:, 128:192].view(-1, 2, 32), 2).view(-1, 8, 32) << 4
    scales = _signed(blocks[:, 192:208]).mul_(_half(blocks, 208))
    return codes.view(-1, 16, 16).float().sub_(32).mul_(scales[..., None])


def _non_linear(codes: Tensor) -> Tensor:
    return torch.tensor(_NON_LINEAR, dtype=torch.float32)[codes.int()]


def _iq4_nl(blocks: Tensor) -> Tensor:
    codes = _halves_of_bytes(blocks[:, None, 2:]).flatten(1)
    return _non_linear(codes).mul_(_half(blocks, 0))


def _iq4_xs(blocks: Tensor) -> Tensor:
    low = torch.stack((blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4), dim=2).flatten(1)
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8)
    high = ((blocks[:, 2:4, None] >> shifts) & 3).flatten(1)
    scales = (low | high << 4).float().sub_(32).mul_(_half(blocks, 0))
    codes = _halves_of_bytes(blocks[:, 8:].view(-1, 8, 16)).view(-1, 8, 32)
    return _non_linear(codes).mul_(scales[..., None])


_DEQUANTIZE: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "Q4_0": _q4_0,
        "Q4_1": _q4_1,
        "Q5_0": _q5_0,
        "Q5_1": _q5_1,
        "Q8_0": _q8_0,
        "Q2_K": _q2_k,
        "Q3_K": _q3_k,
        "Q4_K": _q4_k,
        "Q5_K": _q5_k,
        "Q6_K": _q6_k,
        "IQ4_NL": _iq4_nl,
        "IQ4_XS": _iq4_xs,
    }
)
SUPPORTED = (*_FLOATS, *_DEQUANTIZE)

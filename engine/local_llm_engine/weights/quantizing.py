"""Turns matrices into the codes and scales of our own formats, a part at a time.

Knows nothing of files or of which matrix gets which format.
"""

from collections.abc import Callable
import math
from typing import Literal

import torch
from torch import Tensor

from .int4 import Int4Codes
from .linear import Int4Linear
from .quantized import QuantizedMatrix

type Format = Literal["int4", "int8"]
type Parts = dict[str, Tensor]

CODES = "codes"
SCALES = "scales"
_GROUP = Int4Linear.GROUP
_LARGEST_INT8 = 127
_LARGEST_INT4 = 7
_SMALLEST_INT4 = -8
# Rows that are quantized at once: a multiple of every block, word and scheme's rows.
_ROWS_AT_ONCE = 256
_WEIGHTS_A_PIECE = 1 << 25
# A group's codes may span less than all its weights: a few outliers are clipped, all others get finer steps.
_SPANS = (1.0, 0.9, 0.8)
# What a group of equal weights gets for a scale, so that nothing is divided by 0.
_TINY = 1e-12


def part_shapes(
    weights: Format, shape: tuple[int, ...], block: int
) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Say of which tensors a matrix [O, I], or several [E, O, I], consists in a format."""
    *several, num_rows, num_columns = shape
    if weights == "int8":
        return {
            CODES: (torch.int8, shape),
            SCALES: (torch.bfloat16, shape[:-1]),
        }
    return {
        CODES: (
            torch.uint8,
            (*several, num_rows // block, num_columns, block // 2),
        ),
        SCALES: (
            torch.bfloat16,
            (*several, num_columns // _GROUP, num_rows, 2),
        ),
    }


def format_bytes(weights: Format, shape: tuple[int, ...]) -> int:
    """Count the bytes of a matrix in a format; blocks do not change them."""
    shapes = part_shapes(weights, shape, Int4Linear.GROUP).values()
    return sum(math.prod(own) * dtype.itemsize for dtype, own in shapes)


def quantize(
    reopen: Callable[[], Tensor | QuantizedMatrix],
    shape: tuple[int, ...],
    weights: Format,
    *,
    block: int,
    let_go: Callable[[], None],
) -> Parts:
    """Make the parts of a matrix; the codes of one that is int4 already are taken over where its groups allow.

    What has been read of a mapped matrix counts as memory of the process: after every piece it is let go,
    and opened again.
    """
    parts = {
        name: torch.empty(own, dtype=dtype)
        for name, (dtype, own) in part_shapes(weights, shape, block).items()
    }
    *several, num_rows, num_columns = shape
    at_once = max(1, _WEIGHTS_A_PIECE // num_columns // _ROWS_AT_ONCE) * _ROWS_AT_ONCE
    for index in range(math.prod(several)):
        own = {name: part[index] if several else part for name, part in parts.items()}
        for start in range(0, num_rows, at_once):
            stored = reopen()
            if several:
                assert isinstance(stored, Tensor)
                stored = stored[index]
            for row in range(start, min(start + at_once, num_rows), _ROWS_AT_ONCE):
                _fill(own, stored, row, min(row + _ROWS_AT_ONCE, num_rows), block)
            del stored
            let_go()
    return parts


def _fill(
    parts: Parts, stored: Tensor | QuantizedMatrix, start: int, end: int, block: int
) -> None:
    """Write rows start .. end - 1 of a matrix into its parts."""
    if parts[CODES].dtype == torch.int8:
        codes, scales = _int8(_rows(stored, start, end))
        parts[CODES][start:end] = codes
        parts[SCALES][start:end] = scales
        return
    codes, scales = _int4(stored, start, end)
    parts[CODES][start // block : end // block] = in_blocks(codes, block)
    parts[SCALES][:, start:end] = scales.transpose(0, 1)


def takes_over(stored: object) -> bool:
    """Whether a matrix's own codes are kept: its groups consist of whole groups of ours."""
    return (
        isinstance(stored, Int4Codes)
        and stored.are_even_runs
        and stored.group_size % _GROUP == 0
    )


def _rows(stored: Tensor | QuantizedMatrix, start: int, end: int) -> Tensor:
    if isinstance(stored, Tensor):
        return stored[start:end].float()
    return stored.rows(start, end)


def _int8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize rows [n, I] to codes [n, I] and scales [n]."""
    scales = (rows.abs().amax(1) / _LARGEST_INT8).clamp_min(_TINY).bfloat16()
    codes = (rows / scales.float()[:, None]).round_()
    return codes.clamp_(-_LARGEST_INT8, _LARGEST_INT8).to(torch.int8), scales


def _int4(
    stored: Tensor | QuantizedMatrix, start: int, end: int
) -> tuple[Tensor, Tensor]:
    """Return codes, uint8 [n, I], and scales and middles, bfloat16 [n, I / 32, 2]."""
    if not (isinstance(stored, Int4Codes) and takes_over(stored)):
        return _search(_rows(stored, start, end))
    scales = stored.scales(start, end)
    both = torch.stack((scales, stored.middles(start, end)), dim=-1).bfloat16()
    repeats = stored.group_size // _GROUP
    return stored.codes(start, end), both.repeat_interleave(repeats, dim=1)


def _search(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Find codes, scales and middles of rows [n, I] with little squared error.

    For each of some spans, codes are rounded to even steps; the best scale and middle for these codes
    are those of a linear regression, and the codes are rounded anew with them.
    """
    groups = rows.view(-1, _GROUP).t().contiguous()
    low, high = groups.amin(0), groups.amax(0)
    best_error = torch.full_like(low, torch.inf)
    best_scale, best_middle = torch.empty_like(low), torch.empty_like(low)
    for span in _SPANS:
        scale = (high - low).mul_(span / 15).clamp_min_(_TINY)
        codes = _codes(groups, scale, (low + high).add_(scale).div_(2))
        scale, middle = _regress(codes, groups, low)
        codes = _codes(groups, scale, middle)
        error = codes.mul_(scale).add_(middle).sub_(groups).square_().sum(0)
        better = error < best_error
        best_error = torch.where(better, error, best_error)
        best_scale = torch.where(better, scale, best_scale)
        best_middle = torch.where(better, middle, best_middle)
    codes = _codes(groups, best_scale, best_middle) - _SMALLEST_INT4
    both = torch.stack((best_scale, best_middle), dim=-1).bfloat16()
    num_rows = rows.shape[0]
    return codes.to(torch.uint8).t().reshape(num_rows, -1), both.view(num_rows, -1, 2)


def _codes(groups: Tensor, scale: Tensor, middle: Tensor) -> Tensor:
    """Round weights [32, N] to codes from -8 to 7."""
    codes = (groups - middle).div_(scale).round_()
    return codes.clamp_(_SMALLEST_INT4, _LARGEST_INT4)


def _regress(codes: Tensor, groups: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale and the middle [N], as bfloat16 has them, that fit weights best to their codes."""
    mean = codes.mean(0)
    centred = codes - mean
    variance = centred.square().sum(0)
    scale = (centred.mul_(groups).sum(0) / variance.clamp_min(_TINY)).bfloat16().float()
    # Equal weights have equal codes; they are all middle.
    flat = scale.abs() < _TINY
    scale = torch.where(flat, torch.ones_like(scale), scale)
    middle = torch.where(flat, low, groups.mean(0) - scale * mean)
    return scale, middle.bfloat16().float()


def in_blocks(codes: Tensor, block: int) -> Tensor:
    """Pack codes [n, I] into bytes [n / block, I, block / 2]."""
    halves = codes.view(-1, 2, block // 2, codes.shape[1])
    return (halves[:, 0] | (halves[:, 1] << 4)).transpose(1, 2)

"""A matrix in a format of our own: its codes and scales, from memory or from a converted file.

Knows which machine can multiply with it and how; knows nothing of what it is for.
"""

from dataclasses import dataclass
from typing import Self

import torch

from .linear import Int4Linear, Int8Linear, LinearWeight
from .quantizing import CODES, SCALES, Format, Parts, in_blocks

# Widest first: of AVX-512, of AVX2.
_BLOCKS = (64, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4Layout:
    """In blocks of how many rows 4-bit codes lie, and whether torch has a kernel on this machine that takes them so."""

    block: int
    has_kernel: bool

    @classmethod
    def of(cls, device: torch.device) -> Self:
        """Find out by having torch pack a small matrix."""
        if device.type == "cpu":
            codes = torch.arange(64)[:, None] * 7 + torch.arange(Int4Linear.GROUP)
            codes = codes % 16
            packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(  # noqa: SLF001 - torch has no public name for it
                codes.to(torch.int32), 1
            )
            for block in _BLOCKS:
                own = in_blocks(codes.to(torch.uint8), block)
                if torch.equal(own.flatten(), packed.flatten()):
                    return cls(block=block, has_kernel=True)
        return cls(block=_BLOCKS[0], has_kernel=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeMatrix:
    """The parts of a matrix in one of our formats."""

    weights: Format
    parts: Parts

    def linear(
        self, layout: Int4Layout, device: torch.device, dtype: torch.dtype
    ) -> LinearWeight:
        """Make it ready to multiply rows in `dtype`."""
        codes = self.parts[CODES].to(device)
        scales = self.parts[SCALES].to(device)
        if self.weights == "int8":
            return Int8Linear(codes, scales, dtype)
        return Int4Linear(
            codes, scales, dtype, block=layout.block, has_kernel=layout.has_kernel
        )

"""Matrices of 4-bit codes in groups along their rows, and the ways in which checkpoints pack them.

A group's weights share a scale and a zero, weight = (code - zero) * scale, or a scale and a middle. What a code and
a scale is, every matrix hands out by itself, so that a format of our own can take them over as they are.
"""

from abc import ABC, abstractmethod
from typing import override

import torch
from torch import Tensor

from ..errors import WeightFormatError

CODES_A_WORD = 8
_BITS = 4
LARGEST_CODE = 15


# Codes count from here: weight = (code - MIDDLE_CODE) * scale + middle.
MIDDLE_CODE = 8


class Int4Codes(ABC):
    """A matrix [O, I] of 4-bit codes whose groups, of `group_size` columns each, have a scale and a middle.

    `are_even_runs` says whether each group is a run of columns, in order, and the last of a row is whole.
    """

    shape: tuple[int, int]
    group_size: int
    are_even_runs: bool

    @abstractmethod
    def codes(self, start: int, end: int) -> Tensor:
        """Unpack the codes of rows start .. end - 1, uint8 [n, I]; start is a multiple of 8."""

    @abstractmethod
    def scales(self, start: int, end: int) -> Tensor:
        """Return the scales of rows start .. end - 1, float32 [n, G]."""

    @abstractmethod
    def middles(self, start: int, end: int) -> Tensor:
        """Return what MIDDLE_CODE stands for in rows start .. end - 1, float32 [n, G]; start is a multiple of 8."""


class Int4Matrix(Int4Codes):
    """Codes with a scale and a zero a group; column i belongs to group `groups[i]` of its row.

    `groups_are_runs` says whether each group is a run of `group_size` columns, in order.
    """

    def __init__(
        self, shape: tuple[int, int], group_size: int, groups: Tensor | None
    ) -> None:
        """Take `groups` [I] where the groups are no runs of `group_size` columns."""
        self.shape = shape
        self.group_size = group_size
        runs = torch.arange(shape[1]) // group_size
        self.groups = runs if groups is None else groups
        self.groups_are_runs = groups is None or torch.equal(groups, runs)
        self.are_even_runs = self.groups_are_runs and shape[1] % group_size == 0

    @abstractmethod
    def zeros(self, start: int, end: int) -> Tensor:
        """Return the zeros of rows start .. end - 1, uint8 [n, G]; start is a multiple of 8."""

    @override
    def middles(self, start: int, end: int) -> Tensor:
        """Return what MIDDLE_CODE stands for in rows start .. end - 1."""
        zeros = self.zeros(start, end).float()
        return (MIDDLE_CODE - zeros) * self.scales(start, end)

    def rows(self, start: int, end: int) -> Tensor:
        """Dequantize rows start .. end - 1; start is a multiple of 8."""
        # Some formats have columns in the place of rows.
        codes = self.codes(start, end).to(
            torch.float32, memory_format=torch.contiguous_format
        )
        zeros, scales = self.zeros(start, end).float(), self.scales(start, end)
        if self.are_even_runs:
            grouped = codes.view(*scales.shape, self.group_size)
            grouped.sub_(zeros[..., None]).mul_(scales[..., None])
            return codes
        return codes.sub_(zeros[:, self.groups]).mul_(scales[:, self.groups])


def unpack_along_rows(words: Tensor) -> Tensor:
    """Unpack int32 words [n, m], the first of 8 codes in the lowest bits, to uint8 [n, 8 m]."""
    # The lowest byte of a word comes first, as everywhere in these files.
    pairs = words.clone(memory_format=torch.contiguous_format).view(torch.uint8)
    return torch.stack((pairs & LARGEST_CODE, pairs >> _BITS), dim=-1).flatten(1)


def unpack_along_columns(words: Tensor) -> Tensor:
    """Unpack int32 words [m, n], the first of 8 codes in the lowest bits, to uint8 [8 m, n]."""
    return unpack_along_rows(words.t()).t()


def num_groups(num_columns: int, group_size: int) -> int:
    """Count the groups of a row; the last may be smaller."""
    return -(-num_columns // group_size)


def checked_groups(name: str, groups: Tensor, count: int) -> Tensor:
    """Return a file's list of groups as indices.

    Raises:
        WeightFormatError: it names groups that are not there.
    """
    if groups.numel() and not 0 <= int(groups.min()) <= int(groups.max()) < count:
        raise WeightFormatError(
            f"tensor {name!r} names groups from {int(groups.min())} to {int(groups.max())}; there are {count}"
        )
    return groups.long()

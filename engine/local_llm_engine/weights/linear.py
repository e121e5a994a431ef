"""The matrices that a model multiplies with: what each of them offers, and the plain one.

Knows nothing of files or of what a matrix is for.
"""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

# Weights that are dequantized at once: as 16-bit numbers they stay in a core's own cache.
_WEIGHTS_AT_ONCE = 1 << 20


class LinearWeight(Protocol):
    """A matrix [O, I], or several of one shape, [E, O, I]; equal rows in equal numbers give equal bits."""

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map rows [T, I] to [T, O] in their dtype; `bias` [O] is added."""

    def take(self, indices: Tensor) -> Tensor:
        """Return rows [T, I] of the matrix in the model's dtype; int64 indices [T]."""

    def __getitem__(self, index: int) -> LinearWeight:
        """Return one of several matrices; it shares its memory."""


class PlainLinear:
    """A matrix of floats."""

    def __init__(self, weight: Tensor) -> None:
        """Hold `weight`."""
        self.weight = weight

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map rows."""
        return functional.linear(rows, self.weight, bias)

    def take(self, indices: Tensor) -> Tensor:
        """Return rows of the matrix."""
        return functional.embedding(indices, self.weight)

    def __getitem__(self, index: int) -> PlainLinear:
        """Return one of several matrices."""
        return PlainLinear(self.weight[index])


class Int8Linear:
    """A matrix of 8-bit codes whose rows have a scale each: weight = code * scale.

    Few rows are multiplied by torch's kernel for packed weights, in bfloat16 whatever the model's dtype;
    for many the codes are turned into the model's dtype, a part at a time.
    """

    # From here on it is quicker to convert the codes: measured with AVX-512 BF16 and AVX2.
    _MANY_ROWS = 17
    # The kernel computes wrong sums for others.
    _COLUMNS = 32

    def __init__(self, codes: Tensor, scales: Tensor, dtype: torch.dtype) -> None:
        """Hold int8 `codes` [..., O, I] and bfloat16 `scales` [..., O]; `dtype` is the model's."""
        self._codes = codes
        self._scales = scales
        self._dtype = dtype
        self._has_kernel = (
            codes.device.type == "cpu" and codes.shape[-1] % self._COLUMNS == 0
        )

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map rows."""
        if self._has_kernel and rows.shape[0] < self._MANY_ROWS:
            product: Tensor = torch.ops.aten._weight_int8pack_mm(  # noqa: SLF001 - torch has no public name for it
                rows.bfloat16().contiguous(), self._codes, self._scales
            ).to(rows.dtype)
            return product if bias is None else product + bias
        product = rows.new_empty(rows.shape[0], self._codes.shape[0])
        for start, end in _parts(*self._codes.shape):
            part = self._codes[start:end].to(rows.dtype)
            product[:, start:end] = functional.linear(rows, part)
        product.mul_(self._scales)
        return product if bias is None else product.add_(bias)

    def take(self, indices: Tensor) -> Tensor:
        """Return rows of the matrix."""
        codes, scales = self._codes[indices], self._scales[indices]
        return codes.to(self._dtype).mul_(scales[:, None])

    def __getitem__(self, index: int) -> Int8Linear:
        """Return one of several matrices."""
        return Int8Linear(self._codes[index], self._scales[index], self._dtype)


class Int4Linear:
    """A matrix of 4-bit codes in groups of 32 columns, which share a scale and a middle.

    weight = (code - 8) * scale + middle. Rows lie in blocks; the byte of a block's column that holds the
    code of row j in its lower half holds that of row j + half a block in its upper. Few rows are multiplied
    by torch's kernel for packed weights, in bfloat16 whatever the model's dtype; for many the matrix is
    dequantized into it, a part at a time.
    """

    GROUP = 32
    # From here on it is quicker to dequantize: measured with AVX-512 BF16.
    _MANY_ROWS = 73

    def __init__(
        self,
        codes: Tensor,
        scales: Tensor,
        dtype: torch.dtype,
        *,
        block: int,
        has_kernel: bool,
    ) -> None:
        """Hold uint8 `codes` [..., O / block, I, block / 2] and bfloat16 `scales` [..., I / 32, O, 2].

        `scales` are scale and middle; `has_kernel` says whether torch's kernel takes codes in such blocks.
        """
        self._codes = codes
        self._scales = scales
        self._dtype = dtype
        self._block = block
        self._has_kernel = has_kernel and codes.device.type == "cpu"

    def __call__(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map rows."""
        num_blocks, num_columns, _ = self._codes.shape
        if self._has_kernel and rows.shape[0] < self._MANY_ROWS:
            packed = self._codes.view(num_blocks * self._block, num_columns // 2)
            product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(  # noqa: SLF001 - torch has no public name for it
                rows.bfloat16().contiguous(), packed, self.GROUP, self._scales
            ).to(rows.dtype)
            return product if bias is None else product + bias
        product = rows.new_empty(rows.shape[0], num_blocks * self._block)
        parts = tuple(_parts(num_blocks * self._block, num_columns, self._block))
        widest = parts[0][1] // self._block
        room = _Room(self._codes[:widest], rows.dtype)
        for start, end in parts:
            columns = self._dequantize(start, end, room)
            torch.mm(rows, columns, out=product[:, start:end])
        return product if bias is None else product.add_(bias)

    def columns(self, start: int, end: int, dtype: torch.dtype) -> Tensor:
        """Dequantize rows start .. end - 1, whole blocks of them, and return them as columns [I, end - start]."""
        num_blocks = (end - start) // self._block
        return self._dequantize(start, end, _Room(self._codes[:num_blocks], dtype))

    def _dequantize(self, start: int, end: int, room: _Room) -> Tensor:
        """Make the columns in `room`; each pass runs along memory, ten times as quick as passes across it."""
        codes = self._codes[start // self._block : end // self._block]
        num_blocks = codes.shape[0]
        unpacked = room.codes[:num_blocks]
        torch.cat((codes & 15, codes >> 4), dim=-1, out=unpacked)
        weights = room.weights[:num_blocks]
        weights.copy_(unpacked)
        scales, middles = (
            self._scales[:, start:end]
            .view(-1, num_blocks, 1, self._block, 2)
            .permute(4, 1, 0, 2, 3)
            .to(torch.float32, memory_format=torch.contiguous_format)
        )
        grouped = weights.view(num_blocks, -1, self.GROUP, self._block)
        torch.addcmul(middles - 8 * scales, grouped, scales, out=grouped)
        columns = room.columns[:, :num_blocks]
        columns.copy_(weights.transpose(0, 1))
        return columns.flatten(1)

    def take(self, indices: Tensor) -> Tensor:
        """Return rows of the matrix; slow, for it dequantizes their whole blocks."""
        rows = [
            self.columns(start, start + self._block, self._dtype)[:, index - start]
            for index in indices.tolist()
            for start in (index - index % self._block,)
        ]
        return torch.stack(rows)

    def __getitem__(self, index: int) -> Int4Linear:
        """Return one of several matrices."""
        return Int4Linear(
            self._codes[index],
            self._scales[index],
            self._dtype,
            block=self._block,
            has_kernel=self._has_kernel,
        )


class _Room:
    """Where parts of an int4 matrix pass one after the other, so that they meet memory that the CPU still holds."""

    def __init__(self, codes: Tensor, dtype: torch.dtype) -> None:
        """Make room for parts as large as `codes` [n, I, block / 2]."""
        num_blocks, num_columns, half = codes.shape
        shape = (num_blocks, num_columns, 2 * half)
        self.codes = codes.new_empty(shape)
        self.weights = codes.new_empty(shape, dtype=torch.float32)
        self.columns = codes.new_empty(num_columns, num_blocks, 2 * half, dtype=dtype)


def _parts(num_rows: int, num_columns: int, step: int = 1) -> Iterator[tuple[int, int]]:
    """Divide rows into parts of whole steps."""
    at_once = max(1, _WEIGHTS_AT_ONCE // (num_columns * step)) * step
    for start in range(0, num_rows, at_once):
        yield start, min(start + at_once, num_rows)

"""The keys and values of one attention layer: how they are laid out, in the model's dtype or in 8 bits.

Knows nothing of other layers, or of which prompts are worth keeping.
"""

from typing import Self

import torch
from torch import Tensor

from ..ops.quantized_rows import QuantizedRows, hadamard, quantize_rows

# On a CPU a bfloat16 product is compiled anew for every shape, which takes longer than some products do: so what
# grows with every token grows by so many at once.
_PADDED_TO_TOKENS = 128


class RowBuffer:
    """Rows [HKV, capacity, D] as they are."""

    def __init__(
        self, shape: tuple[int, int, int], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Reserve room."""
        self._rows = torch.empty(shape, dtype=dtype, device=device)
        self.tensors: tuple[Tensor, ...] = (self._rows,)

    def write(self, position: int, rows: Tensor) -> None:
        """Put rows [HKV, T, D] at `position`."""
        self._rows[:, position : position + rows.shape[1]] = rows

    def clear(self, start: int, end: int) -> None:
        """Put finite numbers at rows start .. end - 1."""
        self._rows[:, start:end] = 0

    def first(self, length: int) -> Tensor:
        """View the first rows, [HKV, length, D]."""
        return self._rows[:, :length]


class QuantizedBuffer:
    """Rows [HKV, capacity, D] in 8 bits, quantized once, when they are written."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        device: torch.device,
        turns: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Reserve room; `turns` are a matrix that rows are turned by, and its inverse."""
        self._turns = turns
        self._codes = torch.empty(shape, dtype=torch.int8, device=device)
        self._scales = torch.empty(shape[:2], dtype=torch.bfloat16, device=device)
        self.tensors = (self._codes, self._scales)

    def write(self, position: int, rows: Tensor) -> None:
        """Quantize rows [HKV, T, D] and put them at `position`."""
        if self._turns is not None:
            turn, _ = self._turns
            rows = rows.to(turn.dtype) @ turn
        codes, scales = quantize_rows(rows)
        end = position + rows.shape[1]
        self._codes[:, position:end] = codes
        self._scales[:, position:end] = scales

    def clear(self, start: int, end: int) -> None:
        """Do nothing: all codes are finite."""

    def first(self, length: int) -> QuantizedRows:
        """View the first rows."""
        _, inverse = self._turns or (None, None)
        return QuantizedRows(self._codes[:, :length], self._scales[:, :length], inverse)


type Rows = Tensor | QuantizedRows


class KVState:
    """Keys and values of one attention layer, in buffers that never move.

    Rows at and past the sequence's length are garbage, but those of the values that `padded_rows` shows are
    finite. On a CPU an untouched row costs address space only, so the buffers span the whole context from the
    start. `tensors` are all that is kept; tokens lie along their second dimension.
    """

    def __init__(
        self,
        keys: RowBuffer | QuantizedBuffer,
        values: RowBuffer | QuantizedBuffer,
        multiple: int,
    ) -> None:
        """Use `make`."""
        self._keys, self._values, self._multiple = keys, values, multiple
        self.tensors = (*keys.tensors, *values.tensors)
        self._capacity = self.tensors[0].shape[1]

    @classmethod
    def make(
        cls,
        *,
        num_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        quantized: bool = False,
    ) -> Self:
        """Reserve room for `capacity` tokens in `dtype`; `quantized`: in 8 bits."""
        compiled = device.type == "cpu" and dtype == torch.bfloat16
        multiple = _PADDED_TO_TOKENS if compiled else 1
        shape = (num_heads, capacity, head_dim)
        if quantized:
            turns = hadamard(head_dim, dtype=dtype, device=device)
            return cls(
                QuantizedBuffer(shape, device=device, turns=turns),
                QuantizedBuffer(shape, device=device),
                multiple,
            )
        return cls(
            RowBuffer(shape, dtype=dtype, device=device),
            RowBuffer(shape, dtype=dtype, device=device),
            multiple,
        )

    def append(self, position: int, keys: Tensor, values: Tensor) -> None:
        """Write rows [HKV, T, D] at `position`."""
        self._keys.write(position, keys)
        self._values.write(position, values)
        num_tokens = keys.shape[1]
        if num_tokens > 1 or position % self._multiple == 0:
            self.clear_padding(position + num_tokens)

    def clear_padding(self, length: int) -> None:
        """Put finite numbers where `padded_rows` looks past `length`."""
        self._values.clear(length, self._padded(length))

    def rows(self, length: int) -> tuple[Rows, Rows]:
        """View the first keys and values, [HKV, length, D]."""
        return self._keys.first(length), self._values.first(length)

    def padded_rows(self, length: int) -> tuple[Rows, Rows]:
        """View at least `length` rows, in few different sizes; values past it are finite."""
        return self.rows(self._padded(length))

    def _padded(self, length: int) -> int:
        return min(-(-length // self._multiple) * self._multiple, self._capacity)

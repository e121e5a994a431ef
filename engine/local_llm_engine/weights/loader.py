"""Hands a model its tensors in the dtype and on the device that it computes in.

Knows how to get there without a second copy in memory; knows nothing of what a tensor is for.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .quantized import WeightSource, dequantize


class WeightLoader:
    """Takes tensors by name, one at a time, from mapped files to the device."""

    def __init__(
        self,
        source: WeightSource,
        *,
        device: torch.device,
        dtype: torch.dtype,
        prefix: str = "",
    ) -> None:
        """Load for `device`, matrices in `dtype`; `prefix` stands before every name asked for."""
        self._source = source
        self._prefix = prefix
        self.device = device
        self.dtype = dtype

    def within(self, prefix: str) -> WeightLoader:
        """Return a loader of the names that start with `prefix`."""
        return WeightLoader(
            self._source,
            device=self.device,
            dtype=self.dtype,
            prefix=self._prefix + prefix,
        )

    def matrix(self, name: str) -> Tensor:
        """Return a tensor in the model's dtype; it stays mapped where file, dtype and device agree.

        A quantized one is dequantized.
        """
        stored = self._source.stored(self._prefix + name)
        if isinstance(stored, Tensor):
            return stored.to(device=self.device, dtype=self.dtype)
        rows = torch.empty(stored.shape, dtype=self.dtype, device=self.device)
        dequantize(stored, rows)
        return rows

    def vector(self, name: str) -> Tensor:
        """Return a small tensor in float32, whatever the model's dtype; never a view of the file."""
        tensor = self._source.tensor(self._prefix + name)
        return tensor.to(device=self.device, dtype=torch.float32, copy=True)

    def matrices(self, names: Sequence[str]) -> tuple[Tensor, ...]:
        """Return matrices [O, H] that read the same input, joined one below the other if they are copied anyway.

        Joining mapped matrices would double them in memory, so these are returned one by one.
        """
        stored = [self._source.stored(self._prefix + name) for name in names]
        mapped = tuple(
            matrix
            for matrix in stored
            if isinstance(matrix, Tensor)
            and matrix.dtype == self.dtype
            and matrix.device == self.device
        )
        if len(mapped) == len(stored):
            return mapped
        sizes = [matrix.shape[0] for matrix in stored]
        joined = torch.empty(
            sum(sizes), stored[0].shape[1], dtype=self.dtype, device=self.device
        )
        for rows, matrix in zip(torch.split(joined, sizes), stored, strict=True):
            if isinstance(matrix, Tensor):
                rows.copy_(matrix)
            else:
                dequantize(matrix, rows)
        return (joined,)

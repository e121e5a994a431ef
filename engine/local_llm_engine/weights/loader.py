"""Hands a model its tensors in the dtype and on the device that it computes in.

Knows how to get there without a second copy in memory; knows nothing of what a tensor is for.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .conversion import RuntimeSource
from .linear import LinearWeight, PlainLinear
from .quantized import QuantizedMatrix, dequantize
from .runtime_matrix import Int4Layout, RuntimeMatrix


class WeightLoader:
    """Takes tensors by name, one at a time, from mapped files to the device."""

    def __init__(
        self,
        source: RuntimeSource,
        *,
        device: torch.device,
        dtype: torch.dtype,
        layout: Int4Layout | None = None,
        prefix: str = "",
    ) -> None:
        """Load for `device`, floats in `dtype`; `prefix` stands before every name asked for.

        `layout` is that of 4-bit codes, None: of the device.
        """
        self._source = source
        self._prefix = prefix
        self._layout = layout or Int4Layout.of(device)
        self.device = device
        self.dtype = dtype

    def within(self, prefix: str) -> WeightLoader:
        """Return a loader of the names that start with `prefix`."""
        return WeightLoader(
            self._source,
            device=self.device,
            dtype=self.dtype,
            layout=self._layout,
            prefix=self._prefix + prefix,
        )

    def linear(self, name: str) -> LinearWeight:
        """Return a matrix to multiply with, or several of one shape.

        One of floats is in the model's dtype, and stays mapped where file, dtype and device agree; so does
        one in a format of our own. One in a checkpoint's is dequantized.
        """
        return self._linear(self._source.stored(self._prefix + name))

    def vector(self, name: str) -> Tensor:
        """Return a small tensor in float32, whatever the model's dtype; never a view of the file."""
        tensor = self._source.tensor(self._prefix + name)
        return tensor.to(device=self.device, dtype=torch.float32, copy=True)

    def bias(self, name: str) -> Tensor:
        """Return what is added to a product, in the model's dtype."""
        tensor = self._source.tensor(self._prefix + name)
        return tensor.to(device=self.device, dtype=self.dtype)

    def linears(self, names: Sequence[str]) -> tuple[LinearWeight, ...]:
        """Return matrices [O, H] that read the same input, joined one below the other if they are copied anyway.

        Joining mapped matrices would double them in memory, so these are returned one by one.
        """
        stored = [self._source.stored(self._prefix + name) for name in names]
        floats = [matrix for matrix in stored if not isinstance(matrix, RuntimeMatrix)]
        if len(floats) < len(stored) or all(map(self._stays_mapped, floats)):
            return tuple(map(self._linear, stored))
        sizes = [matrix.shape[0] for matrix in floats]
        joined = torch.empty(
            sum(sizes), floats[0].shape[1], dtype=self.dtype, device=self.device
        )
        for rows, matrix in zip(torch.split(joined, sizes), floats, strict=True):
            if isinstance(matrix, Tensor):
                rows.copy_(matrix)
            else:
                dequantize(matrix, rows)
        return (PlainLinear(joined),)

    def _linear(self, stored: Tensor | QuantizedMatrix | RuntimeMatrix) -> LinearWeight:
        if isinstance(stored, RuntimeMatrix):
            return stored.linear(self._layout, self.device, self.dtype)
        return PlainLinear(self._floats(stored))

    def _floats(self, stored: Tensor | QuantizedMatrix) -> Tensor:
        if isinstance(stored, Tensor):
            return stored.to(device=self.device, dtype=self.dtype)
        rows = torch.empty(stored.shape, dtype=self.dtype, device=self.device)
        dequantize(stored, rows)
        return rows

    def _stays_mapped(self, stored: Tensor | QuantizedMatrix) -> bool:
        return (
            isinstance(stored, Tensor)
            and stored.dtype == self.dtype
            and stored.device == self.device
        )

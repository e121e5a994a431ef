"""Hands a model its tensors in the dtype and on the device that it computes in.

Knows how to get there without a second copy in memory; knows nothing of what a tensor is for.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .safetensors import SafetensorsFolder


class WeightLoader:
    """Takes tensors by name, one at a time, from mapped files to the device."""

    def __init__(
        self,
        folder: SafetensorsFolder,
        *,
        device: torch.device,
        dtype: torch.dtype,
        prefix: str = "",
    ) -> None:
        """Load for `device`, matrices in `dtype`; `prefix` stands before every name asked for."""
        self._folder = folder
        self._prefix = prefix
        self.device = device
        self.dtype = dtype

    def within(self, prefix: str) -> WeightLoader:
        """Return a loader of the names that start with `prefix`."""
        return WeightLoader(
            self._folder,
            device=self.device,
            dtype=self.dtype,
            prefix=self._prefix + prefix,
        )

    def matrix(self, name: str) -> Tensor:
        """Return a tensor in the model's dtype; it stays mapped where file, dtype and device agree."""
        return self._mapped(name).to(device=self.device, dtype=self.dtype)

    def vector(self, name: str) -> Tensor:
        """Return a small tensor in float32, whatever the model's dtype; never a view of the file."""
        return self._mapped(name).to(device=self.device, dtype=torch.float32, copy=True)

    def matrices(self, names: Sequence[str]) -> tuple[Tensor, ...]:
        """Return matrices [O, H] that read the same input, joined one below the other if they are copied anyway.

        Joining mapped matrices would double them in memory, so these are returned one by one.
        """
        mapped = [self._mapped(name) for name in names]
        if all(
            matrix.dtype == self.dtype and matrix.device == self.device
            for matrix in mapped
        ):
            return tuple(mapped)
        num_rows = sum(matrix.shape[0] for matrix in mapped)
        joined = torch.empty(
            num_rows, mapped[0].shape[1], dtype=self.dtype, device=self.device
        )
        for rows, matrix in zip(
            torch.split(joined, [matrix.shape[0] for matrix in mapped]),
            mapped,
            strict=True,
        ):
            rows.copy_(matrix)
        return (joined,)

    def _mapped(self, name: str) -> Tensor:
        return self._folder.tensor(self._prefix + name)

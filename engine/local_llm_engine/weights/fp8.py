"""FP8: a matrix of 8-bit floats (E4M3), with one factor for each block of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .quantized import FLOAT_DTYPES, QuantizedInfo, part_of
from .safetensors_header import TensorInfo

_WEIGHT = ".weight"
_SCALE = ".weight_scale_inv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8Scheme:
    """Blocks of `block_rows` rows and `block_columns` columns; those at the edges are smaller."""

    block_rows: int
    block_columns: int

    def find(self, infos: Mapping[str, TensorInfo]) -> Iterator[QuantizedInfo]:
        """Name the matrices of 8-bit floats."""
        for info in infos.values():
            is_matrix = info.name.endswith(_WEIGHT) and len(info.shape) == 2
            if is_matrix and info.dtype == "F8_E4M3":
                num_rows, num_columns = info.shape
                scale = part_of(
                    infos,
                    info,
                    info.name.removesuffix(_WEIGHT) + _SCALE,
                    dtypes=FLOAT_DTYPES,
                    shape=(
                        -(-num_rows // self.block_rows),
                        -(-num_columns // self.block_columns),
                    ),
                )
                yield QuantizedInfo(
                    name=info.name,
                    shape=(num_rows, num_columns),
                    parts={_WEIGHT: info, _SCALE: scale},
                )

    def open(self, info: QuantizedInfo, parts: Mapping[str, Tensor]) -> Fp8Matrix:
        """Make a matrix of its mapped parts."""
        return Fp8Matrix(info.shape, parts[_WEIGHT], parts[_SCALE], self)


class Fp8Matrix:
    """weight = 8-bit float * factor of its block."""

    def __init__(
        self, shape: tuple[int, int], weight: Tensor, scale: Tensor, scheme: Fp8Scheme
    ) -> None:
        """Hold `weight` [O, I] and `scale`, one a block."""
        self.shape = shape
        self._weight = weight
        self._scale = scale.float()
        self._scheme = scheme

    def rows(self, start: int, end: int) -> Tensor:
        """Dequantize rows start .. end - 1."""
        blocks = torch.arange(start, end) // self._scheme.block_rows
        factors = self._scale[blocks]
        rows = self._weight[start:end].float()
        width = self._scheme.block_columns
        if self.shape[1] % width == 0:
            rows.view(*factors.shape, width).mul_(factors[..., None])
            return rows
        return rows.mul_(factors.repeat_interleave(width, dim=1)[:, : self.shape[1]])

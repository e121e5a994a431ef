"""Int4 of compressed-tensors ("pack-quantized"): codes packed along a row, zeros along a column."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import override

import torch
from torch import Tensor

from ..errors import WeightFormatError
from .int4 import (
    CODES_A_WORD,
    Int4Matrix,
    checked_groups,
    num_groups,
    unpack_along_columns,
    unpack_along_rows,
)
from .quantized import FLOAT_DTYPES, QuantizedInfo, part_of, require_matrix
from .safetensors_header import TensorInfo

_WEIGHT = ".weight_packed"
_SCALE = ".weight_scale"
_SHAPE = ".weight_shape"
_ZERO = ".weight_zero_point"
_GROUPS = ".weight_g_idx"
# Codes are stored as whole numbers from -8 to 7, plus this.
_MIDDLE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedInt4Scheme:
    """Groups of `group_size` columns, None: a row is one group. Where `symmetric`, every zero is the middle code."""

    group_size: int | None
    symmetric: bool

    def find(self, infos: Mapping[str, TensorInfo]) -> Iterator[QuantizedInfo]:
        """Name the matrices whose codes are there."""
        for info in infos.values():
            if not info.name.endswith(_WEIGHT):
                continue
            module = info.name.removesuffix(_WEIGHT)
            num_rows, num_words = require_matrix(info, "I32")
            num_columns = num_words * CODES_A_WORD
            count = num_groups(num_columns, self.group_size or num_columns)
            needed: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
                _SCALE: (FLOAT_DTYPES, (num_rows, count)),
                _SHAPE: (("I64", "I32"), (2,)),
            }
            if not self.symmetric:
                num_zero_words = -(-num_rows // CODES_A_WORD)
                needed[_ZERO] = (("I32",), (num_zero_words, count))
            if module + _GROUPS in infos:
                needed[_GROUPS] = (("I32", "I64"), (num_columns,))
            parts = {
                ending: part_of(
                    infos, info, module + ending, dtypes=dtypes, shape=shape
                )
                for ending, (dtypes, shape) in needed.items()
            }
            yield QuantizedInfo(
                name=f"{module}.weight",
                shape=(num_rows, num_columns),
                parts={_WEIGHT: info, **parts},
            )

    def open(
        self, info: QuantizedInfo, parts: Mapping[str, Tensor]
    ) -> PackedInt4Matrix:
        """Make a matrix of its mapped parts."""
        stated = tuple(parts[_SHAPE].tolist())
        if stated != info.shape:
            raise WeightFormatError(
                f"{info.file}: tensor {info.parts[_SHAPE].name!r} says {list(stated)}; its codes are {list(info.shape)}"
            )
        groups = None
        if _GROUPS in parts:
            groups = checked_groups(
                info.parts[_GROUPS].name, parts[_GROUPS], parts[_SCALE].shape[1]
            )
        return PackedInt4Matrix(info.shape, self, parts, groups)


class PackedInt4Matrix(Int4Matrix):
    """`weight_packed` [O, I / 8], `weight_scale` [O, G], `weight_zero_point` [O / 8, G]."""

    def __init__(
        self,
        shape: tuple[int, int],
        scheme: PackedInt4Scheme,
        parts: Mapping[str, Tensor],
        groups: Tensor | None,
    ) -> None:
        """Hold mapped parts."""
        super().__init__(shape, scheme.group_size or shape[1], groups)
        self._weight = parts[_WEIGHT]
        self._scale = parts[_SCALE]
        self._zero = parts.get(_ZERO)

    @override
    def codes(self, start: int, end: int) -> Tensor:
        """Unpack the codes of rows start .. end - 1."""
        return unpack_along_rows(self._weight[start:end])

    @override
    def scales(self, start: int, end: int) -> Tensor:
        """Return the scales of rows start .. end - 1."""
        return self._scale[start:end].float()

    @override
    def zeros(self, start: int, end: int) -> Tensor:
        """Return the zeros of rows start .. end - 1."""
        if self._zero is None:
            return torch.full(
                (end - start, self._scale.shape[1]), _MIDDLE, dtype=torch.uint8
            )
        words = self._zero[start // CODES_A_WORD : -(-end // CODES_A_WORD)]
        return unpack_along_columns(words)[: end - start]

"""AWQ int4 (its "gemm" layout): codes and zeros packed along a row of the transposed matrix, in an order of their own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import override

import torch
from torch import Tensor

from .int4 import CODES_A_WORD, Int4Matrix, num_groups, unpack_along_rows
from .quantized import FLOAT_DTYPES, QuantizedInfo, part_of, require_matrix
from .safetensors_header import TensorInfo

_WEIGHT = ".qweight"
_ZEROS = ".qzeros"
_SCALES = ".scales"
# At which place of a word the code of each of its 8 rows lies.
_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwqScheme:
    """Groups of `group_size` columns, None: a row is one group."""

    group_size: int | None

    def find(self, infos: Mapping[str, TensorInfo]) -> Iterator[QuantizedInfo]:
        """Name the matrices whose codes are there."""
        for info in infos.values():
            if not info.name.endswith(_WEIGHT):
                continue
            module = info.name.removesuffix(_WEIGHT)
            num_columns, num_words = require_matrix(info, "I32")
            num_rows = num_words * CODES_A_WORD
            count = num_groups(num_columns, self.group_size or num_columns)
            zeros = part_of(
                infos,
                info,
                module + _ZEROS,
                dtypes=("I32",),
                shape=(count, num_words),
            )
            scales = part_of(
                infos,
                info,
                module + _SCALES,
                dtypes=FLOAT_DTYPES,
                shape=(count, num_rows),
            )
            yield QuantizedInfo(
                name=f"{module}.weight",
                shape=(num_rows, num_columns),
                parts={_WEIGHT: info, _ZEROS: zeros, _SCALES: scales},
            )

    def open(self, info: QuantizedInfo, parts: Mapping[str, Tensor]) -> AwqMatrix:
        """Make a matrix of its mapped parts."""
        return AwqMatrix(info.shape, self, parts)


class AwqMatrix(Int4Matrix):
    """`qweight` [I, O / 8], `qzeros` [G, O / 8], `scales` [G, O]."""

    def __init__(
        self, shape: tuple[int, int], scheme: AwqScheme, parts: Mapping[str, Tensor]
    ) -> None:
        """Hold mapped parts."""
        super().__init__(shape, scheme.group_size or shape[1], None)
        self._weight = parts[_WEIGHT]
        self._zeros = parts[_ZEROS]
        self._scales = parts[_SCALES]

    @override
    def codes(self, start: int, end: int) -> Tensor:
        """Unpack the codes of rows start .. end - 1."""
        return _unpack(self._weight, start, end)

    @override
    def scales(self, start: int, end: int) -> Tensor:
        """Return the scales of rows start .. end - 1."""
        return self._scales[:, start:end].t().float()

    @override
    def zeros(self, start: int, end: int) -> Tensor:
        """Return the zeros of rows start .. end - 1."""
        return _unpack(self._zeros, start, end)


def _unpack(words: Tensor, start: int, end: int) -> Tensor:
    """Unpack int32 words [n, O / 8] to rows start .. end - 1 of uint8 [O, n]."""
    own = words[:, start // CODES_A_WORD : -(-end // CODES_A_WORD)]
    codes = unpack_along_rows(own).view(own.shape[0], -1, CODES_A_WORD)
    in_order = codes[:, :, torch.tensor(_PLACES)].flatten(1)
    return in_order[:, : end - start].t()

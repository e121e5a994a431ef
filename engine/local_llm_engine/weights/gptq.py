"""GPTQ-Int4: codes packed along a column of the transposed matrix, zeros along its row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import override

from torch import Tensor

from .int4 import (
    CODES_A_WORD,
    LARGEST_CODE,
    Int4Matrix,
    checked_groups,
    num_groups,
    unpack_along_columns,
    unpack_along_rows,
)
from .quantized import FLOAT_DTYPES, QuantizedInfo, part_of, require_matrix
from .safetensors_header import TensorInfo

_WEIGHT = ".qweight"
_ZEROS = ".qzeros"
_SCALES = ".scales"
_GROUPS = ".g_idx"


@dataclass(frozen=True, slots=True, kw_only=True)
class GptqScheme:
    """Groups of `group_size` columns, None: a row is one group. The first version of the format stores zeros less one.

    Which matrices are quantized, the checkpoint itself says: what its configuration leaves out stands
    there by its plain name.
    """

    group_size: int | None
    stored_less_one: bool

    def find(self, infos: Mapping[str, TensorInfo]) -> Iterator[QuantizedInfo]:
        """Name the matrices whose codes are there."""
        for info in infos.values():
            if not info.name.endswith(_WEIGHT):
                continue
            module = info.name.removesuffix(_WEIGHT)
            num_words, num_rows = require_matrix(info, "I32")
            num_columns = num_words * CODES_A_WORD
            count = num_groups(num_columns, self.group_size or num_columns)
            words = -(-num_rows // CODES_A_WORD)
            parts = {
                _WEIGHT: info,
                _ZEROS: part_of(
                    infos,
                    info,
                    module + _ZEROS,
                    dtypes=("I32",),
                    shape=(count, words),
                ),
                _SCALES: part_of(
                    infos,
                    info,
                    module + _SCALES,
                    dtypes=FLOAT_DTYPES,
                    shape=(count, num_rows),
                ),
            }
            if module + _GROUPS in infos:
                parts[_GROUPS] = part_of(
                    infos,
                    info,
                    module + _GROUPS,
                    dtypes=("I32",),
                    shape=(num_columns,),
                )
            yield QuantizedInfo(
                name=f"{module}.weight", shape=(num_rows, num_columns), parts=parts
            )

    def open(self, info: QuantizedInfo, parts: Mapping[str, Tensor]) -> GptqMatrix:
        """Make a matrix of its mapped parts."""
        groups = None
        if _GROUPS in parts:
            groups = checked_groups(
                info.parts[_GROUPS].name, parts[_GROUPS], parts[_SCALES].shape[0]
            )
        return GptqMatrix(info.shape, self, parts, groups)


class GptqMatrix(Int4Matrix):
    """`qweight` [I / 8, O], `qzeros` [G, O / 8], `scales` [G, O]."""

    def __init__(
        self,
        shape: tuple[int, int],
        scheme: GptqScheme,
        parts: Mapping[str, Tensor],
        groups: Tensor | None,
    ) -> None:
        """Hold mapped parts."""
        super().__init__(shape, scheme.group_size or shape[1], groups)
        self._weight = parts[_WEIGHT]
        self._zeros = parts[_ZEROS]
        self._scales = parts[_SCALES]
        self._added_to_zero = int(scheme.stored_less_one)

    @override
    def codes(self, start: int, end: int) -> Tensor:
        """Unpack the codes of rows start .. end - 1."""
        return unpack_along_columns(self._weight[:, start:end]).t()

    @override
    def scales(self, start: int, end: int) -> Tensor:
        """Return the scales of rows start .. end - 1."""
        return self._scales[:, start:end].t().float()

    @override
    def zeros(self, start: int, end: int) -> Tensor:
        """Return the zeros of rows start .. end - 1."""
        words = self._zeros[:, start // CODES_A_WORD : -(-end // CODES_A_WORD)]
        stored = unpack_along_rows(words)[:, : end - start].t()
        # Zero less one is stored as the largest code.
        return (stored + self._added_to_zero) & LARGEST_CODE

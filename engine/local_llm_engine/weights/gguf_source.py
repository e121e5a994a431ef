"""The tensors of a model as GGUF files hold them, each by the name and in the order that our models ask for.

Knows how rows and columns are put in order while they are read; knows nothing of which order is right.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
import math
from pathlib import Path
from types import MappingProxyType
from typing import override

import torch
from torch import Tensor

from ..errors import UnsupportedModelError, WeightFormatError
from .gguf_blocks import (
    INT4_GROUP,
    INT4_TYPES,
    SUPPORTED,
    as_floats,
    dequantize_rows,
    int4_codes,
    int4_scales,
)
from .gguf_header import GgufHeader
from .int4 import Int4Codes
from .quantized import FLOAT_DTYPES, QuantizedInfo, QuantizedMatrix, StoredInfo
from .safetensors_header import TensorInfo

type Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one tensor is made of a file's, `parts`, which lie one below the other.

    Row i is row `rows[i]` of the parts, column j their column `columns[j]`; None keeps the order. A vector
    is one row. `change` is applied to the values of a small tensor, in float32.
    """

    parts: tuple[TensorInfo, ...]
    shape: tuple[int, ...]
    rows: Tensor | None = None
    columns: Tensor | None = None
    change: Change | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the tensor is there as it is needed."""
        return (
            len(self.parts) == 1
            and self.rows is None
            and self.columns is None
            and self.change is None
        )


class GgufSource:
    """Hands out what recipes make of a file; see `WeightSource` for what its methods promise."""

    def __init__(
        self, header: GgufHeader, recipes: Iterable[tuple[str, Recipe]]
    ) -> None:
        """Take the recipes of the tensors that are needed, by their names.

        Raises:
            UnsupportedModelError: a tensor is stored in a format that is not computed here.
            WeightFormatError: two recipes make one tensor.
        """
        self._parts = {part.stamp.file: part for part in header.parts}
        self._recipes: dict[str, Recipe] = {}
        infos: dict[str, StoredInfo] = {}
        for name, recipe in recipes:
            if name in infos:
                raise WeightFormatError(
                    f"{header.file}: holds {name!r} under two names; right is one of them"
                )
            self._recipes[name] = recipe
            infos[name] = _info(header.file, name, recipe)
        self.infos = MappingProxyType(infos)
        self._mapped: dict[Path, Tensor] = {}

    def stored(self, name: str) -> Tensor | QuantizedMatrix:
        """Map one tensor, or open one matrix that is quantized or in another order."""
        recipe = self._recipes[name]
        parts = [self._bytes(part) for part in recipe.parts]
        if recipe.is_plain:
            values = as_floats(parts[0], recipe.parts[0].dtype)
            if values is not None:
                return values.view(recipe.shape)
        if len(recipe.shape) != 2:
            return GgufMatrix(recipe, parts).whole()
        has_codes = len(parts) == 1 and recipe.parts[0].dtype in INT4_TYPES
        return (GgufInt4Matrix if has_codes else GgufMatrix)(recipe, parts)

    def tensor(self, name: str) -> Tensor:
        """Map one tensor; one that is quantized or in another order is made as a whole, in float32."""
        stored = self.stored(name)
        return stored if isinstance(stored, Tensor) else stored.rows(0, stored.shape[0])

    def let_go(self) -> None:
        """Unmap the files, but for what somebody still holds; what is asked for later is mapped anew."""
        self._mapped.clear()

    def _bytes(self, info: TensorInfo) -> Tensor:
        """Map the rows of a tensor of the file, uint8 [R, bytes]."""
        part = self._parts[info.file]
        part.stamp.require_unchanged()
        if info.file not in self._mapped:
            self._mapped[info.file] = _map(info.file, part.stamp.num_bytes)
        data = self._mapped[info.file][part.data_start :]
        own = data[info.start : info.end]
        return own.view(math.prod(info.shape[:-1]), -1)


class GgufMatrix:
    """A matrix that is quantized, in another order, or both; of its parts, mapped rows of bytes."""

    def __init__(self, recipe: Recipe, parts: list[Tensor]) -> None:
        """Hold mapped parts."""
        last = recipe.shape[-1]
        self.shape = (math.prod(recipe.shape[:-1]), last)
        self._recipe = recipe
        self._parts = parts

    def rows(self, start: int, end: int) -> Tensor:
        """Dequantize rows start .. end - 1, float32 [n, I]."""
        recipe = self._recipe
        wanted = slice(start, end) if recipe.rows is None else recipe.rows[start:end]
        if len(self._parts) == 1:
            rows = dequantize_rows(self._parts[0][wanted], recipe.parts[0].dtype)
        else:
            assert isinstance(wanted, Tensor)
            rows = self._gather(wanted)
        if recipe.columns is not None:
            rows = rows[:, recipe.columns]
        return rows if recipe.change is None else recipe.change(rows)

    def whole(self) -> Tensor:
        """Dequantize a small tensor as a whole, float32 in the recipe's shape."""
        return self.rows(0, self.shape[0]).view(self._recipe.shape)

    def _gather(self, wanted: Tensor) -> Tensor:
        """Take rows from wherever among the parts they lie."""
        rows = torch.empty(wanted.shape[0], self.shape[1])
        start = 0
        for part, info in zip(self._parts, self._recipe.parts, strict=True):
            is_here = (wanted >= start) & (wanted < start + part.shape[0])
            rows[is_here] = dequantize_rows(part[wanted[is_here] - start], info.dtype)
            start += part.shape[0]
        return rows


class GgufInt4Matrix(GgufMatrix, Int4Codes):
    """A matrix whose codes a format of our own can take over, where its columns are moved by whole groups if at all."""

    def __init__(self, recipe: Recipe, parts: list[Tensor]) -> None:
        """Hold mapped parts."""
        super().__init__(recipe, parts)
        self.group_size = INT4_GROUP
        self._groups: Tensor | slice = slice(None)
        self.are_even_runs = True
        if recipe.columns is not None:
            runs = recipe.columns.view(-1, INT4_GROUP)
            self._groups = runs[:, 0] // INT4_GROUP
            whole = self._groups[:, None] * INT4_GROUP + torch.arange(INT4_GROUP)
            self.are_even_runs = torch.equal(runs, whole)

    @override
    def codes(self, start: int, end: int) -> Tensor:
        """Unpack the codes of rows start .. end - 1."""
        codes = int4_codes(self._stored(start, end), self._recipe.parts[0].dtype)
        columns = self._recipe.columns
        return codes if columns is None else codes[:, columns]

    @override
    def scales(self, start: int, end: int) -> Tensor:
        """Return the scales of rows start .. end - 1."""
        return self._scales(start, end)[0][:, self._groups]

    @override
    def middles(self, start: int, end: int) -> Tensor:
        """Return what the code in the middle stands for in rows start .. end - 1."""
        return self._scales(start, end)[1][:, self._groups]

    def _scales(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        return int4_scales(self._stored(start, end), self._recipe.parts[0].dtype)

    def _stored(self, start: int, end: int) -> Tensor:
        rows = self._recipe.rows
        return self._parts[0][slice(start, end) if rows is None else rows[start:end]]


def _info(file: Path, name: str, recipe: Recipe) -> StoredInfo:
    """Describe what a recipe makes under the name that it has here."""
    first = recipe.parts[0]
    for part in recipe.parts:
        if part.dtype not in SUPPORTED:
            raise UnsupportedModelError(
                f"{file}: tensor {part.name!r} is stored as {part.dtype}; supported are {', '.join(SUPPORTED)}"
            )
    is_as_stored = first.dtype in FLOAT_DTYPES and recipe.change is None
    if is_as_stored or len(recipe.shape) != 2:
        return TensorInfo(
            name=name,
            file=file,
            dtype=first.dtype if is_as_stored else "F32",
            shape=recipe.shape,
            start=first.start,
            end=first.end,
        )
    num_rows, num_columns = recipe.shape
    return QuantizedInfo(
        name=name,
        shape=(num_rows, num_columns),
        parts={part.name: part for part in recipe.parts},
    )


def _map(file: Path, size: int) -> Tensor:
    """Map a file's bytes privately: they are read when they are first used, and nothing reaches the file."""
    try:
        return torch.from_file(str(file), shared=False, size=size, dtype=torch.uint8)
    except (RuntimeError, OSError) as err:
        raise WeightFormatError(f"{file}: cannot be mapped: {err}") from err

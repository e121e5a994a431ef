"""Quantized matrices of a checkpoint: which there are, of which tensors each is made, and each of them opened.

Knows what the formats have in common; knows nothing of config.json or of what a matrix is for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import math
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

from ..errors import WeightFormatError
from .safetensors import SafetensorsFolder
from .safetensors_header import TensorInfo

FLOAT_DTYPES = ("BF16", "F16", "F32")
# Rows that are dequantized at once: a multiple of every format's block and word.
ROWS_AT_ONCE = 256


class QuantizedMatrix(Protocol):
    """A matrix [O, I] as a checkpoint holds it."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def rows(self, start: int, end: int) -> Tensor:
        """Dequantize rows start .. end - 1, float32 [end - start, I], contiguous; start is a multiple of ROWS_AT_ONCE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedInfo:
    """A quantized matrix, named as its unquantized self would be; `parts` are its tensors by their own names' ends."""

    name: str
    shape: tuple[int, int]
    parts: Mapping[str, TensorInfo]

    @property
    def file(self) -> Path:
        """The file of its first part, for messages."""
        return next(iter(self.parts.values())).file

    @property
    def num_elements(self) -> int:
        """Elements of the matrix."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts in their files."""
        return sum(part.nbytes for part in self.parts.values())


type StoredInfo = TensorInfo | QuantizedInfo


class Scheme(Protocol):
    """A way of quantizing, with the numbers that a checkpoint's config.json gives."""

    def find(self, infos: Mapping[str, TensorInfo]) -> Iterator[QuantizedInfo]:
        """Name the quantized matrices among a checkpoint's tensors.

        Raises:
            WeightFormatError: a part is missing, or of a wrong shape or dtype.
        """

    def open(self, info: QuantizedInfo, parts: Mapping[str, Tensor]) -> QuantizedMatrix:
        """Make a matrix of its mapped parts.

        Raises:
            WeightFormatError: what a part holds is out of its range.
        """


class TensorSource(Protocol):
    """The tensors of a model by name; see `WeightSource` for what the methods promise."""

    @property
    def infos(self) -> Mapping[str, StoredInfo]:
        """What is there."""

    def stored(self, name: str) -> Tensor | QuantizedMatrix:
        """Map one tensor, or open one quantized matrix."""

    def tensor(self, name: str) -> Tensor:
        """Map one tensor, or dequantize it as a whole."""

    def let_go(self) -> None:
        """Unmap everything that nobody holds."""


class WeightSource:
    """The tensors of a model folder by name, the quantized among them by the names of their unquantized selves."""

    def __init__(self, folder: SafetensorsFolder, scheme: Scheme | None = None) -> None:
        """Find what is quantized by `scheme`; None: nothing is.

        Raises:
            WeightFormatError: as `Scheme.find`.
        """
        self._folder = folder
        self._scheme = scheme
        infos: dict[str, StoredInfo] = dict(folder.infos)
        for info in scheme.find(folder.infos) if scheme else ():
            for part in info.parts.values():
                del infos[part.name]
            if info.name in infos:
                raise WeightFormatError(
                    f"{info.file}: tensor {info.name!r} is there both quantized and not; right is one of them"
                )
            infos[info.name] = info
        self.infos = MappingProxyType(infos)

    def stored(self, name: str) -> Tensor | QuantizedMatrix:
        """Map one tensor, or open one quantized matrix.

        Raises:
            WeightFormatError: a file has changed since its header was read, or holds what cannot be right.
        """
        info = self.infos[name]
        if isinstance(info, TensorInfo):
            return self._folder.tensor(name)
        assert self._scheme is not None
        parts = {
            ending: self._folder.tensor(part.name)
            for ending, part in info.parts.items()
        }
        return self._scheme.open(info, parts)

    def tensor(self, name: str) -> Tensor:
        """Map one tensor; a quantized matrix is dequantized as a whole, in float32."""
        stored = self.stored(name)
        if isinstance(stored, Tensor):
            return stored
        rows = torch.empty(stored.shape)
        dequantize(stored, rows)
        return rows

    def let_go(self) -> None:
        """Unmap what nobody holds a tensor of."""
        self._folder.let_go()


def dequantize(matrix: QuantizedMatrix, rows: Tensor) -> None:
    """Write a whole matrix into `rows` [O, I], of any dtype and on any device, a part at a time."""
    num_rows = matrix.shape[0]
    for start in range(0, num_rows, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, num_rows)
        rows[start:end].copy_(matrix.rows(start, end))


def require_matrix(info: TensorInfo, dtype: str) -> tuple[int, int]:
    """Return the shape of a part that must be a matrix of a dtype.

    Raises:
        WeightFormatError: it is none.
    """
    if info.dtype != dtype or len(info.shape) != 2 or not info.num_elements:
        raise WeightFormatError(
            f"{info.file}: tensor {info.name!r} is {info.dtype} of the shape {list(info.shape)}; right is a matrix of {dtype}"
        )
    return info.shape[0], info.shape[1]


def part_of(
    infos: Mapping[str, TensorInfo],
    whole: TensorInfo,
    name: str,
    *,
    dtypes: tuple[str, ...],
    shape: tuple[int, ...],
) -> TensorInfo:
    """Find the part `name` of the matrix that `whole` belongs to.

    Raises:
        WeightFormatError: it is missing, or of a wrong shape or dtype.
    """
    part = infos.get(name)
    if part is None:
        raise WeightFormatError(
            f"{whole.file}: tensor {name!r} is missing; {whole.name!r} cannot be read without it"
        )
    if part.shape != shape:
        raise WeightFormatError(
            f"{part.file}: tensor {name!r} has the shape {list(part.shape)}; beside {whole.name!r} it needs {list(shape)}"
        )
    if part.dtype not in dtypes:
        raise WeightFormatError(
            f"{part.file}: tensor {name!r} has the dtype {part.dtype}; right is {' or '.join(dtypes)}"
        )
    return part

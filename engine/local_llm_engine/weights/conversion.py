"""Brings a checkpoint's matrices into our own formats: in memory, or matrix by matrix into a file.

Knows which matrix gets which format from whoever asks; knows nothing of where files are kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import json
import math
from pathlib import Path
from typing import IO, Protocol, Self

import torch
from torch import Tensor

from ..errors import WeightFormatError
from .quantized import QuantizedMatrix, TensorSource
from .quantizing import Format, part_shapes, quantize
from .runtime_matrix import RuntimeMatrix
from .safetensors import SafetensorsFolder
from .safetensors_header import TensorInfo

type Progress = Callable[[float], None]
# Is called between two pieces of work, and raises where the rest is wanted no more.
type Check = Callable[[], None]

CHECKSUM = "checksum"
_WORD_BYTES = 8
# Every tensor begins at a multiple of this in the file.
_ALIGNMENT = 64
_PIECE_BYTES = 1 << 24
_NAMES = {
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.float32: "F32",
    torch.int8: "I8",
    torch.uint8: "U8",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


class RuntimeSource(Protocol):
    """The tensors of a model by name, some of them in formats of our own."""

    def stored(self, name: str) -> Tensor | QuantizedMatrix | RuntimeMatrix:
        """Map one tensor, open one quantized matrix, or hand out one in a format of our own."""

    def tensor(self, name: str) -> Tensor:
        """Map one tensor; a quantized matrix is dequantized as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The names of all tensors that a model needs, and the formats of those that get another.

    `block` is how many rows a block of 4-bit codes has.
    """

    source: TensorSource
    names: tuple[str, ...]
    formats: Mapping[str, Format]
    block: int
    check: Check

    def convert(self, name: str) -> RuntimeMatrix:
        """Bring one matrix into its format."""
        weights = self.formats[name]
        parts = quantize(
            lambda: self.source.stored(name),
            self.source.infos[name].shape,
            weights,
            block=self.block,
            let_go=self._end_piece,
        )
        return RuntimeMatrix(weights=weights, parts=parts)

    def _end_piece(self) -> None:
        self.source.let_go()
        self.check()

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Make all that a file holds of one tensor, by the names that it has there."""
        if name in self.formats:
            parts = self.convert(name).parts
            return {_part_name(name, part): tensor for part, tensor in parts.items()}
        dtype = _DTYPES[self._dtype_name(name)]
        return {name: self.source.tensor(name).to(dtype)}

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name dtype and shape of every tensor of the file, in order."""
        layout: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name in self.names:
            info = self.source.infos[name]
            if name in self.formats:
                parts = part_shapes(self.formats[name], info.shape, self.block)
                for part, (dtype, shape) in parts.items():
                    layout[_part_name(name, part)] = (_NAMES[dtype], shape)
            else:
                layout[name] = (self._dtype_name(name), info.shape)
        return layout

    def _dtype_name(self, name: str) -> str:
        """In which dtype a tensor is kept that is in no format of our own: in its own, if it is one of floats."""
        info = self.source.infos[name]
        return info.dtype if isinstance(info, TensorInfo) else "BF16"

    @property
    def nbytes(self) -> int:
        """Bytes of the file's tensors, without what aligns them."""
        return sum(_nbytes(dtype, shape) for dtype, shape in self.layout().values())


class ConvertingSource:
    """Converts every matrix when it is asked for; nothing is kept."""

    def __init__(self, conversion: Conversion, progress: Progress) -> None:
        """Convert as `conversion` says, and tell which share is done."""
        self._conversion = conversion
        self._progress = progress
        self._num_done = 0

    def stored(self, name: str) -> Tensor | QuantizedMatrix | RuntimeMatrix:
        """Convert one matrix, or hand out what the source has."""
        if name not in self._conversion.formats:
            return self._conversion.source.stored(name)
        matrix = self._conversion.convert(name)
        self._num_done += 1
        self._progress(self._num_done / len(self._conversion.formats))
        return matrix

    def tensor(self, name: str) -> Tensor:
        """Hand out what the source has."""
        return self._conversion.source.tensor(name)


class ConvertedFile:
    """A safetensors file of converted weights, whole and sound; every tensor of it is mapped."""

    def __init__(
        self, tensors: SafetensorsFolder, conversion: Conversion, checksum: int
    ) -> None:
        """Use `ConvertedFile.open`; `checksum` tells files of other numbers apart."""
        self._tensors = tensors
        self._conversion = conversion
        self.checksum = checksum

    @classmethod
    def open(cls, file: Path, conversion: Conversion) -> Self:
        """Read a whole file once and check it.

        Raises:
            WeightFormatError: it is damaged, or not what the conversion would write.
        """
        tensors = SafetensorsFolder.of_file(file)
        infos = tensors.infos
        found = {
            info.name: (info.dtype, info.shape)
            for info in infos.values()
            if not info.name.startswith(CHECKSUM)
        }
        if found != conversion.layout() or CHECKSUM not in infos:
            raise WeightFormatError(f"{file}: holds other tensors than it should")
        try:
            expected, checksum = _read_checksum(
                file, infos[CHECKSUM].start, conversion.check
            )
        except OSError as err:
            raise WeightFormatError(
                f"{file}: cannot be read: {err.strerror or err}"
            ) from err
        if checksum != expected:
            raise WeightFormatError(f"{file}: is damaged: its checksum is another")
        return cls(tensors, conversion, checksum)

    def stored(self, name: str) -> Tensor | QuantizedMatrix | RuntimeMatrix:
        """Map one tensor or matrix."""
        weights = self._conversion.formats.get(name)
        if weights is None:
            return self._tensors.tensor(name)
        shape = self._conversion.source.infos[name].shape
        names = part_shapes(weights, shape, self._conversion.block)
        parts = {part: self._tensors.tensor(_part_name(name, part)) for part in names}
        return RuntimeMatrix(weights=weights, parts=parts)

    def tensor(self, name: str) -> Tensor:
        """Map one tensor that is in no format of our own."""
        return self._tensors.tensor(name)


def write_converted(
    stream: IO[bytes], conversion: Conversion, progress: Progress
) -> None:
    """Convert matrix by matrix into a file, and tell which share of it is written.

    Raises:
        OSError: there is no room, or no right to write.
    """
    header, data_bytes = _header(conversion)
    stream.write(header)
    checksum = written = 0
    for name in conversion.names:
        for tensor in conversion.tensors(name).values():
            flat = tensor.contiguous().view(-1).view(torch.uint8)
            for start in range(0, flat.numel(), _PIECE_BYTES):
                conversion.check()
                piece = flat[start : start + _PIECE_BYTES]
                # A copy: the sum takes whole words, and mapped tensors lie anywhere.
                padded = torch.zeros(_aligned(piece.numel()), dtype=torch.uint8)
                padded[: piece.numel()] = piece
                stream.write(memoryview(padded.numpy()))
                checksum = _added(checksum, padded)
                written += padded.numel()
        progress(written / data_bytes)
    stream.write(checksum.to_bytes(_WORD_BYTES, "little", signed=True))


def _header(conversion: Conversion) -> tuple[bytes, int]:
    """Lay the file out: all tensors, each filled up to the alignment, and the sum of all words before it."""
    entries: dict[str, object] = {}
    end = 0

    def add(name: str, dtype: str, shape: tuple[int, ...]) -> None:
        nonlocal end
        start, end = end, end + _nbytes(dtype, shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}

    for name, (dtype, shape) in conversion.layout().items():
        add(name, dtype, shape)
        if filling := _aligned(end) - end:
            add(f"{CHECKSUM}.{len(entries)}", "U8", (filling,))
    data_bytes = end
    add(CHECKSUM, "I64", (1,))
    text = json.dumps(entries).encode()
    text += b" " * (_aligned(len(text) + _WORD_BYTES) - _WORD_BYTES - len(text))
    return len(text).to_bytes(_WORD_BYTES, "little") + text, data_bytes


def _read_checksum(file: Path, data_bytes: int, check: Check) -> tuple[int, int]:
    """Return the sum that a file names and that of its words."""
    checksum = 0
    buffer = torch.empty(_PIECE_BYTES, dtype=torch.uint8)
    view = memoryview(buffer.numpy())
    with file.open("rb", buffering=0) as stream:
        stream.seek(_WORD_BYTES + int.from_bytes(stream.read(_WORD_BYTES), "little"))
        left = data_bytes
        while left:
            check()
            count = stream.readinto(view[: min(left, _PIECE_BYTES)])
            if not count or count % _WORD_BYTES:
                raise OSError("the file ends early")
            checksum = _added(checksum, buffer[:count])
            left -= count
        return int.from_bytes(stream.read(_WORD_BYTES), "little", signed=True), checksum


def _added(checksum: int, data: Tensor) -> int:
    """Add the 8-byte words of `data` as signed numbers that overflow."""
    total = checksum + int(data.view(torch.int64).sum())
    half = 1 << 63
    return (total + half) % (2 * half) - half


def _part_name(name: str, part: str) -> str:
    return f"{name}.{part}"


def _nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * (
        _WORD_BYTES if dtype == "I64" else _DTYPES[dtype].itemsize
    )


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT

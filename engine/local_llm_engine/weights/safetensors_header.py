"""The header of one safetensors file, checked in full before anything of its size is allocated.

Knows the file format (github.com/huggingface/safetensors, "Format"); knows nothing of models, and reads
no weights.
"""

from collections.abc import Iterable
from dataclasses import dataclass
import json
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeGuard

from ..errors import WeightFormatError, shown

# What the format itself allows.
MAX_HEADER_BYTES = 100_000_000
_LENGTH_BYTES = 8
_LFS_POINTER_START = b"version https://git-lfs"
_MAX_DIMENSIONS = 16
_MAX_NAME_CHARACTERS = 255
_MAX_COUNT = 2**63 - 1

DTYPE_BITS = MappingProxyType(
    {
        "BOOL": 8,
        "F4": 4,
        "F6_E2M3": 6,
        "F6_E3M2": 6,
        "U8": 8,
        "I8": 8,
        "F8_E5M2": 8,
        "F8_E4M3": 8,
        "F8_E5M2FNUZ": 8,
        "F8_E4M3FNUZ": 8,
        "F8_E8M0": 8,
        "I16": 16,
        "U16": 16,
        "F16": 16,
        "BF16": 16,
        "I32": 32,
        "U32": 32,
        "F32": 32,
        "C64": 64,
        "F64": 64,
        "I64": 64,
        "U64": 64,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """Where one tensor lies: bytes start .. end - 1 of the data that follow the header of `file`."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def num_elements(self) -> int:
        """Elements of the tensor; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor in its file."""
        return self.end - self.start


def read_header(file: Path) -> tuple[TensorInfo, ...]:
    """Return all tensors of a file in the order of their bytes.

    Raises:
        WeightFormatError: the file cannot be read, is cut short or too long, is a Git LFS pointer, or
            its header does not describe exactly the bytes that follow it.
    """
    try:
        with file.open("rb") as stream:
            size = file.stat().st_size
            header_length = _header_length(
                file, stream.read(len(_LFS_POINTER_START)), size
            )
            stream.seek(_LENGTH_BYTES)
            header = stream.read(header_length)
    except OSError as err:
        raise WeightFormatError(
            f"{file}: cannot be read: {err.strerror or err}"
        ) from err
    infos = [
        _tensor_info(file, name, entry)
        for name, entry in _parse(file, header).items()
        if name != "__metadata__"
    ]
    infos.sort(key=lambda info: (info.start, info.end))
    _check_layout(file, infos, size - _LENGTH_BYTES - header_length)
    return tuple(infos)


def _header_length(file: Path, start: bytes, size: int) -> int:
    if start == _LFS_POINTER_START:
        _refuse(
            file,
            "is a Git LFS pointer, not the weights themselves; fetch the real file (git lfs pull) or download it again",
        )
    if len(start) < _LENGTH_BYTES:
        _refuse(
            file,
            f"is cut short: it has {size} bytes, a safetensors file starts with an 8-byte header length",
        )
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        _refuse(
            file,
            f"claims a header of {length} bytes; at most {MAX_HEADER_BYTES} are allowed, so this is no intact safetensors file",
        )
    if length > size - _LENGTH_BYTES:
        _refuse(
            file,
            f"is cut short: its header needs {length} bytes, the file has {size - _LENGTH_BYTES} after the header length",
        )
    return length


def _parse(file: Path, header: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(
            header, object_pairs_hook=lambda pairs: _unique(file, pairs)
        )
    except (ValueError, RecursionError) as err:
        raise WeightFormatError(f"{file}: its header is not valid JSON: {err}") from err
    if not isinstance(parsed, dict):
        _refuse(file, f"its header must be a JSON object, not {type(parsed).__name__}")
    return parsed


def _unique(file: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        _refuse(
            file, f"its header lists {shown(double)} twice; each name may stand once"
        )
    return unique


def _tensor_info(file: Path, name: str, entry: object) -> TensorInfo:
    if not name.isprintable() or len(name) > _MAX_NAME_CHARACTERS:
        right = f"at most {_MAX_NAME_CHARACTERS} characters that can be printed"
        _refuse(file, f"names a tensor {shown(name)}; right are {right}")
    if not isinstance(entry, dict):
        _refuse(
            file,
            f"tensor {name!r} must be described by a JSON object, not {type(entry).__name__}",
        )
    dtype, shape, offsets = (
        entry.get("dtype"),
        entry.get("shape"),
        entry.get("data_offsets"),
    )
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        _refuse(
            file,
            f"tensor {name!r} has the unknown dtype {shown(dtype)}; known are {', '.join(DTYPE_BITS)}",
        )
    if not _are_counts(shape) or len(shape) > _MAX_DIMENSIONS:
        right = f"a list of at most {_MAX_DIMENSIONS} whole numbers from 0"
        _refuse(file, f"tensor {name!r} has the shape {shown(shape)}; right is {right}")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        right = "two whole numbers from 0, start and end"
        _refuse(
            file,
            f"tensor {name!r} has the data_offsets {shown(offsets)}; right are {right}",
        )
    start, end = offsets
    _check_size(file, name, end - start, math.prod(shape) * DTYPE_BITS[dtype])
    return TensorInfo(
        name=name, file=file, dtype=dtype, shape=tuple(shape), start=start, end=end
    )


def _check_size(file: Path, name: str, nbytes: int, needed_bits: int) -> None:
    if needed_bits != nbytes * 8:
        needed = -(-needed_bits // 8)
        _refuse(
            file,
            f"tensor {name!r} spans {nbytes} bytes; its shape and dtype need {needed}",
        )


def _are_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        type(item) is int and 0 <= item <= _MAX_COUNT for item in value
    )


def _check_layout(file: Path, infos: Iterable[TensorInfo], num_data_bytes: int) -> None:
    """Refuse holes, overlaps, missing and trailing bytes; `infos` in the order of their bytes."""
    end = 0
    for info in infos:
        if info.start != end:
            kind = (
                "overlaps the tensor before it"
                if info.start < end
                else "leaves a hole before it"
            )
            _refuse(
                file,
                f"tensor {info.name!r} starts at byte {info.start} and {kind}; right would be {end}",
            )
        end = info.end
        if end > num_data_bytes:
            _refuse(
                file,
                f"is cut short: tensor {info.name!r} ends at byte {end} of the data, the file has {num_data_bytes}",
            )
    if end != num_data_bytes:
        _refuse(
            file,
            f"has {num_data_bytes - end} bytes after its last tensor; right would be none, so the file is damaged",
        )


def _refuse(file: Path, problem: str) -> NoReturn:
    raise WeightFormatError(f"{file}: {problem}")

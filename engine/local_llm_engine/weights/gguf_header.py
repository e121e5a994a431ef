"""The header of one GGUF file: its metadata and its table of tensors, checked in full before anything is believed.

Knows the file format (github.com/ggml-org/ggml, docs/gguf.md); knows nothing of what a key means to a
model, and reads no weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
import math
from pathlib import Path
from types import MappingProxyType

from ..errors import ModelLoadError, WeightFormatError, shown
from .file_stamp import FileStamp
from .gguf_parts import first_part, is_named_as_part, part
from .gguf_reading import HeaderStream, Value
from .gguf_types import BLOCK_TYPES
from .safetensors_header import TensorInfo

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_LFS_POINTER_START = b"version https"
# Of either kind; the largest published models have a tenth of it.
_MAX_ENTRIES = 65_536
_MAX_KEY_BYTES = 65_535
# llama.cpp takes no name of more than 63.
_MAX_NAME_BYTES = 255
_MAX_DIMENSIONS = 4
_ALIGNMENT = "general.alignment"
_NUM_PARTS, _PART_NUMBER = "split.count", "split.no"
_NUM_TENSORS = "split.tensors.count"
_DEFAULT_ALIGNMENT = 32
# From the widest value that is mapped as it is, to what no writer exceeds.
_ALIGNMENTS = tuple(1 << power for power in range(3, 17))
# A model's eyes, which lie beside it in a file of their own.
_PROJECTOR = "mmproj"


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufPart:
    """One file of a model. `data_start` is where the bytes lie that its tensors' `start` and `end` count."""

    stamp: FileStamp
    data_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What a model says of itself: one file, or the first and those that hold the rest of its tensors.

    A tensor's dtype is the name of its format, its shape has the values of one row last.
    """

    file: Path
    parts: tuple[GgufPart, ...]
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]


def gguf_file_of(path: Path) -> Path | None:
    """Return the GGUF file that a path means: itself, or the only one in a folder without config.json; None for none.

    Of a model in parts it is the first, whichever is meant.

    Raises:
        ModelLoadError: the folder holds several.
    """
    if path.is_file():
        return first_part(path)
    if not path.is_dir() or (path / "config.json").exists():
        return None
    files = sorted(
        {
            first_part(file)
            for file in path.iterdir()
            if file.suffix.lower() == ".gguf" and not file.name.startswith(_PROJECTOR)
        }
    )
    if len(files) > 1:
        raise ModelLoadError(
            f"{path}: holds {len(files)} GGUF files, {files[0].name} and {files[1].name} among them; "
            "right is one, or the path of one of them"
        )
    return files[0] if files else None


def read_gguf_header(file: Path) -> GgufHeader:
    """Read and check a header, and those of the further parts; time and memory are bounded whatever the files say.

    Raises:
        WeightFormatError: a file cannot be read, is no GGUF file of a known version, is cut short, or
            its header does not describe the bytes that follow it; a part is missing, or of another model.
    """
    first = _read_file(file)
    count = first.metadata.get(_NUM_PARTS, 1)
    if count in (0, 1):
        return first
    if type(count) is not int or not is_named_as_part(file, count):
        raise WeightFormatError(
            f"{file}: is one of {shown(count)} parts of a model; right are files with the names that they were made with, "
            "all in one folder, or one file, which llama.cpp's llama-gguf-split --merge makes of them"
        )
    others = [_read_file(part(file, number)) for number in range(2, count + 1)]
    return _joined(first, others)


def _joined(first: GgufHeader, others: Sequence[GgufHeader]) -> GgufHeader:
    """Join the parts of one model; the first one's metadata is that of all."""
    tensors = dict(first.tensors)
    for number, other in enumerate(others, 1):
        own = [other.metadata.get(key) for key in (_PART_NUMBER, _NUM_PARTS)]
        if own != [number, len(others) + 1]:
            raise WeightFormatError(
                f"{other.file}: says that it is part {shown(own[0])} of {shown(own[1])}, counted from 0; "
                f"right is {number} of {len(others) + 1}"
            )
        for name, info in other.tensors.items():
            if name in tensors:
                raise WeightFormatError(
                    f"{other.file}: holds tensor {shown(name)}, as {tensors[name].file.name} does; right is one of them"
                )
            tensors[name] = info
    expected = first.metadata.get(_NUM_TENSORS)
    if len(tensors) != expected:
        raise WeightFormatError(
            f"{first.file}: its parts hold {len(tensors)} tensors; {_NUM_TENSORS} is {shown(expected)}"
        )
    parts = [one for header in (first, *others) for one in header.parts]
    return replace(first, parts=tuple(parts), tensors=MappingProxyType(tensors))


def _read_file(file: Path) -> GgufHeader:
    stamp = FileStamp.of(file)
    try:
        with file.open("rb", buffering=1 << 20) as raw:
            return _read(stamp, HeaderStream(file, raw, stamp.num_bytes))
    except OSError as err:
        raise WeightFormatError(
            f"{file}: cannot be read: {err.strerror or err}"
        ) from err


def _read(stamp: FileStamp, stream: HeaderStream) -> GgufHeader:
    _check_start(stream)
    num_tensors = stream.count("tensors", _MAX_ENTRIES)
    num_entries = stream.count("entries of metadata", _MAX_ENTRIES)
    metadata = _read_metadata(stream, num_entries)
    alignment = metadata.get(_ALIGNMENT, _DEFAULT_ALIGNMENT)
    if alignment not in _ALIGNMENTS:
        stream.refuse(
            f"{_ALIGNMENT} is {shown(alignment)}; right is a power of two from {_ALIGNMENTS[0]} to {_ALIGNMENTS[-1]}"
        )
    assert isinstance(alignment, int)
    found = list(_read_tensors(stamp.file, stream, num_tensors))
    data_start = _padded(stream.position, alignment)
    _check_layout(stream, found, alignment, stamp.num_bytes - data_start)
    tensors = {info.name: info for info in found}
    if len(tensors) != len(found):
        stream.refuse("two of its tensors bear one name; each name may stand once")
    return GgufHeader(
        file=stamp.file,
        parts=(GgufPart(stamp=stamp, data_start=data_start),),
        metadata=MappingProxyType(metadata),
        tensors=MappingProxyType(tensors),
    )


def _check_start(stream: HeaderStream) -> None:
    magic = stream.take(len(_MAGIC), "the first word of a GGUF file")
    if _LFS_POINTER_START.startswith(magic):
        stream.refuse(
            "is a Git LFS pointer, not the weights themselves; fetch the real file (git lfs pull) or download it again"
        )
    if magic != _MAGIC:
        stream.refuse(
            "is no GGUF file: it does not start with the letters GGUF; a model is such a file or a folder with config.json"
        )
    version = stream.number("I")
    if version not in _VERSIONS:
        # The other order of bytes shows in the low half being empty.
        order = " of big-endian machines" if not version & 0xFFFF else ""
        stream.refuse(
            f"is a GGUF file{order} of version {version}; right is a little-endian one of version {' or '.join(map(str, _VERSIONS))}"
        )


def _read_metadata(stream: HeaderStream, num_entries: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _ in range(num_entries):
        key = stream.text("a key of its metadata", _MAX_KEY_BYTES)
        if key in metadata:
            stream.refuse(
                f"its metadata holds {key[:60]!r} twice; each key may stand once"
            )
        metadata[key] = stream.value(key)
    return metadata


def _read_tensors(
    file: Path, stream: HeaderStream, num_tensors: int
) -> Iterator[TensorInfo]:
    for _ in range(num_tensors):
        name = stream.text("the name of a tensor", _MAX_NAME_BYTES)
        own = shown(name)
        if not name.isprintable():
            stream.refuse(
                f"names a tensor {own}; right are characters that can be printed"
            )
        num_dimensions = stream.number("I")
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            stream.refuse(
                f"tensor {own} has {num_dimensions} dimensions; right is 1 to {_MAX_DIMENSIONS}"
            )
        # The innermost one stands first in the file.
        shape = tuple(reversed([stream.number("Q") for _ in range(num_dimensions)]))
        number, start = stream.number("I"), stream.number("Q")
        kind = BLOCK_TYPES.get(number)
        if kind is None:
            stream.refuse(f"tensor {own} is of the unknown format {number}")
        if not all(shape) or shape[-1] % kind.block_elements:
            stream.refuse(
                f"tensor {own} has the shape {list(shape)}; right are sizes above 0 and, "
                f"in {kind.name}, rows of a multiple of {kind.block_elements}"
            )
        num_blocks = math.prod(shape) // kind.block_elements
        yield TensorInfo(
            name=name,
            file=file,
            dtype=kind.name,
            shape=shape,
            start=start,
            end=start + num_blocks * kind.block_bytes,
        )


def _check_layout(
    stream: HeaderStream, infos: list[TensorInfo], alignment: int, num_data_bytes: int
) -> None:
    """Refuse holes, overlaps, missing and trailing bytes; each tensor is filled up to the alignment."""
    end = 0
    for info in infos:
        right = _padded(end, alignment)
        if info.start != right:
            stream.refuse(
                f"tensor {info.name[:60]!r} starts at byte {info.start} of the data; right would be {right}, "
                "where the tensor before it ends"
            )
        end = info.end
        if end > num_data_bytes:
            stream.refuse(
                f"is cut short: tensor {info.name[:60]!r} ends at byte {end} of the data, the file has {max(0, num_data_bytes)}"
            )
    if num_data_bytes > _padded(end, alignment):
        stream.refuse(
            f"has {num_data_bytes - end} bytes after its last tensor; right would be none, so the file is damaged"
        )


def _padded(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment

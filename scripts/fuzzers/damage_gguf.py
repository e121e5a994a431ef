"""Damages a GGUF file: its metadata and its table of tensors, entry by entry, its data, its bytes."""

from collections.abc import Callable
from dataclasses import dataclass
import math
from random import Random
import struct

from .damage_bytes import EXTREMES, damage_bytes
from .damage_json import strange_text

_STRING, _ARRAY = 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNMENT = 32
# Of the formats: how many values a block has, and how many bytes.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 30: (1, 2),
}  # fmt: skip


@dataclass(slots=True)
class _Entry:
    """An entry of metadata: what follows its kind, as it stands in the file."""

    key: bytes
    kind: int
    value: bytes


@dataclass(slots=True)
class _Tensor:
    """A line of the table, and the tensor's bytes."""

    name: bytes
    shape: list[int]
    kind: int
    data: bytes


@dataclass(slots=True)
class _File:
    entries: list[_Entry]
    tensors: list[_Tensor]
    header_bytes: int


def damage_gguf(rng: Random, data: bytes) -> bytes:
    """Change a file so that it is unsound, or sound and of other contents."""
    file = _read(data)
    if rng.random() < 0.3:
        return damage_bytes(rng, data, upto=file.header_bytes)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        rng.choice(_WAYS)(rng, file)
    made = _written(rng, file)
    return damage_bytes(rng, made) if rng.random() < 0.05 else made


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 8

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise struct.error(f"it ends {self.at - len(self.data)} bytes early")
        return self.data[self.at - count : self.at]

    def number(self, code: str = "Q") -> int:
        size = struct.calcsize(code)
        found: int = struct.unpack(f"<{code}", self.take(size))[0]
        return found

    def text(self) -> bytes:
        return self.take(self.number())

    def skip(self, kind: int) -> None:
        if kind == _STRING:
            self.text()
        elif kind == _ARRAY:
            own, count = self.number("I"), self.number()
            for _ in range(count):
                self.skip(own)
        else:
            self.take(_WIDTHS[kind])


def _read(data: bytes) -> _File:
    reader = _Reader(data)
    num_tensors, num_entries = reader.number(), reader.number()
    entries = []
    for _ in range(num_entries):
        key, kind, start = reader.text(), reader.number("I"), reader.at
        reader.skip(kind)
        entries.append(_Entry(key, kind, data[start : reader.at]))
    lines = []
    for _ in range(num_tensors):
        name = reader.text()
        shape = [reader.number() for _ in range(reader.number("I"))]
        lines.append((name, shape, reader.number("I"), reader.number()))
    data_start = _aligned(reader.at)
    tensors = []
    for name, shape, kind, offset in lines:
        start = data_start + offset
        tensors.append(
            _Tensor(name, shape, kind, data[start : start + _size(shape, kind)])
        )
    return _File(entries, tensors, reader.at)


def _size(shape: list[int], kind: int) -> int:
    values, nbytes = _BLOCKS.get(kind, (1, 1))
    return math.prod(shape) // values * nbytes


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _written(rng: Random, file: _File) -> bytes:
    """Lay a file out, now and then with a count or an offset that is wrong."""
    wrong = rng.random() < 0.15
    num_tensors = rng.choice(EXTREMES) if wrong and rng.random() < 0.3 else len(file.tensors)  # fmt: skip
    num_entries = rng.choice(EXTREMES) if wrong and rng.random() < 0.3 else len(file.entries)  # fmt: skip
    header = [b"GGUF\x03\0\0\0", struct.pack("<QQ", num_tensors % (1 << 64), num_entries % (1 << 64))]  # fmt: skip
    header += [
        _text(entry.key) + struct.pack("<I", entry.kind % (1 << 32)) + entry.value
        for entry in file.entries
    ]
    data: list[bytes] = []
    offset = 0
    for tensor in file.tensors:
        shown = rng.choice(EXTREMES) if wrong and rng.random() < 0.1 else offset
        sizes = b"".join(struct.pack("<Q", size % (1 << 64)) for size in tensor.shape)
        header.append(
            _text(tensor.name)
            + struct.pack("<I", len(tensor.shape))
            + sizes
            + struct.pack("<IQ", tensor.kind % (1 << 32), shown % (1 << 64))
        )
        filled = tensor.data + bytes(-len(tensor.data) % _ALIGNMENT)
        data.append(filled)
        offset += len(filled)
    whole = b"".join(header)
    return whole + bytes(-len(whole) % _ALIGNMENT) + b"".join(data)


def _other_value(rng: Random, file: _File) -> None:
    if not file.entries:
        return
    entry = rng.choice(file.entries)
    match rng.randrange(6):
        case 0:
            entry.kind = rng.choice((*_WIDTHS, _STRING, _ARRAY, 13, 255))
        case 1:
            entry.kind, entry.value = 4, struct.pack("<I", rng.choice(EXTREMES) % (1 << 32))  # fmt: skip
        case 2:
            entry.kind = 6
            entry.value = struct.pack("<f", rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5)))  # fmt: skip
        case 3:
            entry.kind = _STRING
            entry.value = _text(strange_text(rng).encode("utf-8", "surrogatepass"))
        case 4:
            other = rng.choice(file.entries)
            entry.kind, entry.value = other.kind, other.value
        case _:
            entry.value = damage_bytes(rng, entry.value, upto=16)


def _other_array(rng: Random, file: _File) -> None:
    """Change one element of an array, or how many there are."""
    arrays = [entry for entry in file.entries if entry.kind == _ARRAY]
    if not arrays:
        return
    entry = rng.choice(arrays)
    try:
        kind, elements = _elements(entry.value)
    except struct.error, KeyError:
        # It has been changed before.
        return
    at = rng.randrange(len(elements) + 1)
    if rng.random() < 0.3 or at == len(elements):
        del elements[at:]
    elif rng.random() < 0.2:
        del elements[at]
    elif kind == _STRING:
        elements[at] = _text(strange_text(rng).encode("utf-8", "surrogatepass"))
    else:
        width = _WIDTHS[kind]
        elements[at] = rng.choice((bytes(width), b"\xff" * width, rng.randbytes(width)))
    entry.value = struct.pack("<IQ", kind, len(elements)) + b"".join(elements)


def _elements(array: bytes) -> tuple[int, list[bytes]]:
    """Take an array apart: the kind of its elements, and each of them."""
    kind, count = struct.unpack_from("<IQ", array)
    reader = _Reader(array)
    reader.at = 12
    elements = []
    for _ in range(min(count, len(array))):
        start = reader.at
        reader.skip(kind)
        elements.append(array[start : reader.at])
    return kind, elements


def _other_key(rng: Random, file: _File) -> None:
    if file.entries:
        entry, other = rng.choice(file.entries), rng.choice(file.entries)
        entry.key = rng.choice(
            (
                other.key,
                strange_text(rng).encode("utf-8", "surrogatepass"),
                entry.key[:-1],
            )
        )


def _without(rng: Random, file: _File) -> None:
    entries = file.entries if rng.random() < 0.5 else file.tensors
    if entries:
        del entries[rng.randrange(len(entries))]


def _other_shape(rng: Random, file: _File) -> None:
    if not file.tensors:
        return
    tensor = rng.choice(file.tensors)
    match rng.randrange(5):
        case 0:
            tensor.shape.append(rng.choice((1, 2)))
        case 1 if tensor.shape:
            tensor.shape.pop()
        case 2 if tensor.shape:
            tensor.shape[rng.randrange(len(tensor.shape))] = rng.choice(EXTREMES)
        case 3:
            tensor.shape.reverse()
        case _ if tensor.shape:
            tensor.shape[-1] += rng.choice((-8, -1, 1, 8))
            tensor.shape = [abs(size) for size in tensor.shape]
    _fit(tensor)


def _other_format(rng: Random, file: _File) -> None:
    if file.tensors:
        tensor = rng.choice(file.tensors)
        tensor.kind = rng.choice((*_BLOCKS, 9, 16, 24, 26, 28, 31, 39, 99))
        _fit(tensor)


def _other_name(rng: Random, file: _File) -> None:
    if file.tensors:
        tensor, other = rng.choice(file.tensors), rng.choice(file.tensors)
        tensor.name = rng.choice(
            (
                other.name,
                tensor.name.replace(b"0", b"1"),
                tensor.name.replace(b"weight", b"bias"),
                tensor.name.replace(b"attn", b"nextn.attn"),
                strange_text(rng).encode("utf-8", "surrogatepass")[:300],
            )
        )


def _other_data(rng: Random, file: _File) -> None:
    if file.tensors:
        tensor = rng.choice(file.tensors)
        tensor.data = damage_bytes(rng, tensor.data)
        _fit(tensor)


def _fit(tensor: _Tensor) -> None:
    """Have as many bytes as shape and format ask for."""
    wanted = _size(tensor.shape, tensor.kind)
    if 0 <= wanted < 1 << 22:
        repeats = wanted // max(1, len(tensor.data)) + 1
        tensor.data = (tensor.data * repeats)[:wanted].ljust(wanted, b"\0")


_WAYS: tuple[Callable[[Random, _File], None], ...] = (
    _other_value,
    _other_value,
    _other_value,
    _other_array,
    _other_array,
    _other_key,
    _without,
    _other_shape,
    _other_shape,
    _other_format,
    _other_name,
    _without,
    _other_data,
)

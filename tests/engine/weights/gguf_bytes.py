"""GGUF headers made byte by byte, sound and unsound."""

from collections.abc import Sequence
import struct

# Numbers of the kinds of values.
U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10


def number(value: int, code: str = "Q") -> bytes:
    return struct.pack(f"<{code}", value)


def text(value: str | bytes) -> bytes:
    encoded = value if isinstance(value, bytes) else value.encode()
    return number(len(encoded)) + encoded


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    """One entry of metadata."""
    return text(key) + number(kind, "I") + value


def array(kind: int, count: int, values: bytes) -> bytes:
    """The value of an array."""
    return number(kind, "I") + number(count) + values


def tensor(
    name: str | bytes, shape: Sequence[int], kind: int = 0, start: int = 0
) -> bytes:
    """One line of the table of tensors; the innermost size stands first in `shape`."""
    sizes = b"".join(map(number, shape))
    return (
        text(name) + number(len(shape), "I") + sizes + number(kind, "I") + number(start)
    )


def gguf_bytes(
    entries: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    start: bytes = b"GGUF\x03\x00\x00\x00",
    num_entries: int | None = None,
    num_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:
    """Lay a file out."""
    counts = number(len(tensors) if num_tensors is None else num_tensors) + number(
        len(entries) if num_entries is None else num_entries
    )
    header = start + counts + b"".join(entries) + b"".join(tensors)
    return header + bytes(-len(header) % alignment) + data


# Two tensors: 2 x 3 float32, and a row of 32 in Q8_0.
SOUND_ENTRIES = (
    entry("general.architecture", STRING, text("llama")),
    entry("a.number", U32, number(7, "I")),
    entry("a.flag", BOOL, b"\x01"),
    entry("an.array", ARRAY, array(F32, 2, struct.pack("<2f", 0.5, 2.0))),
    entry("some.texts", ARRAY, array(STRING, 2, text("Büro") + text(""))),
)
SOUND_TENSORS = (
    tensor("first", (3, 2)),
    tensor("second", (32,), kind=8, start=32),
)
SOUND_DATA = bytes(range(24)) + bytes(8) + bytes(range(34)) + bytes(30)
SOUND = gguf_bytes(SOUND_ENTRIES, SOUND_TENSORS, SOUND_DATA)

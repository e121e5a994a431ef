"""What the file of one piece says of it before any tensor is read; checked as if anybody had written it.

A piece is a safetensors file named by the SHA-256 of all its bytes, and its header names the file of
the piece that it was computed from. So a name stands for one run's history from the first token on,
whatever becomes of the folder. Knows nothing of torch, or of which pieces are worth keeping.
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import errno
from io import FileIO
import json
import os
from pathlib import Path
import re
import stat
from typing import Any, NamedTuple, NoReturn

from local_llm_engine.errors import EngineError

from .ranks import Rank

LAYOUT_VERSION = 3
SUFFIX = ".safetensors"
TOKENS = "tokens"
# A header lists a few tensors a layer: some 20 KB for the largest models.
MAX_HEADER_BYTES = 1 << 20
_NAME = re.compile(r"[0-9a-f]{64}")
_COUNT = re.compile(r"[0-9]{1,9}")
_LENGTH_BYTES = 8
_TOKEN_BYTES = 4


class DamagedPieceError(EngineError):
    """A file is not the piece that its name stands for; the message says why and names no file."""


class ForeignPieceError(DamagedPieceError):
    """The file is a piece that other code, another model or other settings computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceFacts:
    """What a file says of its piece beside tokens and tensors.

    Tokens start .. end - 1, computed from the piece in the file named `parent` (None: from the first
    token on) by what `fingerprint` stands for. It was written on behalf of `session`.
    """

    fingerprint: str
    parent: str | None
    start: int
    end: int
    rank: Rank
    session: str


class TensorBytes(NamedTuple):
    """A tensor as it stands in a file; holds on to the tensor's memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview


class StoredPiece(NamedTuple):
    """A piece on disk, as its header and tokens tell; nobody has looked at its tensors."""

    name: str
    facts: PieceFacts
    token_ids: tuple[int, ...]
    nbytes: int
    modified_seconds: float


class Stamp(NamedTuple):
    """Tells a file that has been checked from one that was changed or put in its place since."""

    inode: int
    nbytes: int
    modified_ns: int


def token_bytes(token_ids: Sequence[int]) -> TensorBytes:
    """Lay out a piece's tokens, which stand first in its file."""
    data = memoryview(array("i", token_ids)).cast("B")
    return TensorBytes(TOKENS, "I32", (len(token_ids),), data)


def make_header(facts: PieceFacts, tensors: Sequence[TensorBytes]) -> bytes:
    """Write what stands before the bytes of the tensors, its own length included."""
    entries: dict[str, object] = {
        "__metadata__": {
            "layout": str(LAYOUT_VERSION),
            "fingerprint": facts.fingerprint,
            "parent": facts.parent or "",
            "start": str(facts.start),
            "end": str(facts.end),
            "rank": facts.rank.name,
            "session": facts.session,
        }
    }
    position = 0
    for tensor in tensors:
        end = position + tensor.data.nbytes
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [position, end],
        }
        position = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _LENGTH_BYTES)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header


def read_stored(path: Path, fingerprint: str) -> StoredPiece:
    """Read a file's header and tokens, and no more.

    Raises:
        ForeignPieceError: it is sound, and something else than `fingerprint` stands for computed it.
        DamagedPieceError: nobody could go on from this file.
    """
    if not _NAME.fullmatch(path.stem):
        refuse("it is not named by its content, so it was not written here")
    with open_plain(path) as (stream, status):
        entries = _read_entries(stream, status.st_size)
        facts = _facts(entries.pop("__metadata__", None), fingerprint)
        num_tokens = facts.end - facts.start
        _check_extent(entries, num_tokens, status.st_size - stream.tell())
        tokens = _exactly(stream, num_tokens * _TOKEN_BYTES)
    return StoredPiece(
        path.stem, facts, tuple(array("i", tokens)), status.st_size, status.st_mtime
    )


@contextmanager
def open_plain(path: Path) -> Iterator[tuple[FileIO, os.stat_result]]:
    """Open a plain file for reading; a link is not followed and a pipe not waited for.

    Raises:
        DamagedPieceError: it cannot be opened or read, or is no plain file.
    """
    try:
        with FileIO(path, opener=_open_descriptor) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                refuse("it is no plain file")
            yield stream, status
    except OSError as error:
        link = error.errno == errno.ELOOP
        problem = "it is a link" if link else f"it cannot be read: {error.strerror}"
        raise DamagedPieceError(problem) from error


def refuse(problem: str) -> NoReturn:
    """Raise DamagedPieceError."""
    raise DamagedPieceError(problem)


def _open_descriptor(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _exactly(stream: FileIO, num_bytes: int) -> bytes:
    data = stream.read(num_bytes)
    if data is None or len(data) != num_bytes:
        refuse("it became shorter while it was read")
    return data


def _read_entries(stream: FileIO, size: int) -> dict[str, Any]:
    """Parse the header; the stream stands at the first tensor then."""
    if size <= _LENGTH_BYTES:
        refuse(f"it is cut short: it has {size} bytes")
    length = int.from_bytes(_exactly(stream, _LENGTH_BYTES), "little")
    if length > min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
        refuse(f"it claims a header of {length} bytes and has {size} bytes in all")
    try:
        entries = json.loads(_exactly(stream, length))
    except (ValueError, RecursionError) as error:
        raise DamagedPieceError("its header is no valid JSON") from error
    if not isinstance(entries, dict):
        refuse("its header is no JSON object")
    return entries


def _facts(metadata: object, fingerprint: str) -> PieceFacts:
    """Read the facts, which say first of all who wrote them."""
    if not isinstance(metadata, dict) or not {"layout", "fingerprint"} <= set(metadata):
        refuse("it is no piece of a prompt cache")
    if metadata["layout"] != str(LAYOUT_VERSION):
        raise ForeignPieceError(
            f"its layout is {metadata['layout']!r}; this engine writes layout {LAYOUT_VERSION}"
        )
    if metadata["fingerprint"] != fingerprint:
        raise ForeignPieceError(
            "another model, or the same one with other settings, computed it"
        )
    try:
        facts = PieceFacts(
            fingerprint=fingerprint,
            parent=metadata["parent"] or None,
            start=_count(metadata["start"]),
            end=_count(metadata["end"]),
            rank=Rank[metadata["rank"]],
            session=metadata["session"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedPieceError("its header lacks a fact of the piece") from error
    if facts.start >= facts.end or bool(facts.start) != bool(facts.parent):
        refuse(
            f"it claims tokens {facts.start} to {facts.end} after {facts.parent or 'none'}"
        )
    return facts


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _check_extent(
    entries: dict[str, Any], num_tokens: int, num_data_bytes: int
) -> None:
    """Refuse a file whose tokens do not stand first or that is not as long as its header says."""
    try:
        tokens = entries[TOKENS]["data_offsets"]
        end = max(entry["data_offsets"][1] for entry in entries.values())
    except (KeyError, TypeError, IndexError) as error:
        raise DamagedPieceError("its header lists no tensors of a piece") from error
    if tokens != [0, num_tokens * _TOKEN_BYTES]:
        refuse(f"its header places {num_tokens} tokens at bytes {tokens}")
    if end != num_data_bytes:
        refuse(f"its tensors take {num_data_bytes} bytes, its header lists {end}")

"""The tensors of one piece in its file: laying them out, checking their bytes, mapping them.

Knows nothing of which pieces are worth keeping, or of threads.
"""

from collections.abc import Iterator, Sequence, Set as AbstractSet
import hashlib
from pathlib import Path
from types import MappingProxyType
from typing import Any

from safetensors import SafetensorError, safe_open
import torch
from torch import Tensor

from .piece_header import (
    DamagedPieceError,
    Stamp,
    TensorBytes,
    open_plain,
    refuse,
    token_bytes,
)
from .state import Checkpoint, KVRun, PieceContent

_DTYPES = MappingProxyType(
    {
        torch.float32: "F32",
        torch.float16: "F16",
        torch.bfloat16: "BF16",
        torch.int8: "I8",
    }
)


def lay_out(token_ids: Sequence[int], content: PieceContent) -> tuple[TensorBytes, ...]:
    """Show a piece as plain bytes, which any thread may read: its tokens, then its tensors, not copied."""
    named = [
        (f"{kind}.{index}", tensor)
        for kind, tensors in (
            ("kv", content.kv.tensors),
            ("conv", content.checkpoint.conv),
            ("delta", content.checkpoint.delta),
        )
        for index, tensor in enumerate(tensors)
    ]
    # Wide elements first, so that every tensor is aligned in the mapped file.
    named.sort(key=lambda item: -item[1].element_size())
    return (
        token_bytes(token_ids),
        *(
            TensorBytes(name, _DTYPES[tensor.dtype], tuple(tensor.shape), _view(tensor))
            for name, tensor in named
        ),
    )


def check_bytes(path: Path, checked: Stamp | None) -> Stamp:
    """Make sure that a file holds what its name stands for; one that still bears the stamp `checked` does.

    Reads and does not map: a sector that cannot be read is an error here, and in a mapped file the
    end of the process.

    Raises:
        DamagedPieceError: it holds something else, or cannot be read.
    """
    with open_plain(path) as (stream, status):
        stamp = Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp != checked:
            if hashlib.file_digest(stream, "sha256").hexdigest() != path.stem:
                refuse("its bytes are not those that were written")
    return stamp


def map_content(path: Path, end: int) -> PieceContent:
    """Map the tensors of a checked file whose piece ends at token `end`; bytes are read when first used.

    Raises:
        DamagedPieceError: it has changed since it was checked.
    """
    try:
        with safe_open(str(path), framework="pt", device="cpu") as file:
            names = frozenset(file.keys())
            kv, conv, delta = (
                tuple(_numbered(file, names, kind)) for kind in ("kv", "conv", "delta")
            )
    except (SafetensorError, OSError) as error:
        raise DamagedPieceError(f"it cannot be mapped: {error}") from error
    return PieceContent(KVRun(kv), Checkpoint(length=end, conv=conv, delta=delta))


def _numbered(file: Any, names: AbstractSet[str], kind: str) -> Iterator[Tensor]:
    index = 0
    while f"{kind}.{index}" in names:
        yield file.get_tensor(f"{kind}.{index}")
        index += 1


def _view(tensor: Tensor) -> memoryview:
    """View a contiguous tensor's bytes."""
    return memoryview(tensor.view(torch.uint8).numpy()).cast("B")

"""Tells the end of memory apart from all other failures, whoever notices it and in whatever words."""

from collections.abc import Iterator
from contextlib import contextmanager
import re

import torch

from local_llm_engine.errors import OutOfMemoryError

# How a RuntimeError of torch says so: its allocator for CPUs, on every system, and the libraries of CUDA
_WORDS = re.compile(
    r"can't allocate memory|not enough memory|out of memory|ALLOC_FAILED", re.IGNORECASE
)
_REQUESTED = re.compile(r"ried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@contextmanager
def memory_errors_told(device: str) -> Iterator[None]:
    """Raise OutOfMemoryError in place of what Python and torch raise where the memory of `device` ends."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(device, _requested_bytes(error)) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has ended."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and bool(_WORDS.search(str(error)))
    )


def _requested_bytes(error: BaseException) -> int | None:
    found = _REQUESTED.search(str(error))
    return int(float(found[1]) * _UNITS[found[2]]) if found else None

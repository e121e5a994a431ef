"""Reads the files of a model that say what it is; whoever made them, they take bounded time and memory to look at.

Knows nothing of what is in them.
"""

import errno
import os
from pathlib import Path


def read_bounded(file: Path, max_bytes: int) -> bytes:
    """Read a whole file of at most `max_bytes`.

    Raises:
        OSError: it cannot be read, or is longer; `strerror` says which.
    """
    with file.open("rb") as stream:
        num_bytes = os.fstat(stream.fileno()).st_size
        if num_bytes > max_bytes:
            raise OSError(
                errno.EFBIG,
                f"it is {num_bytes:,} bytes long; it may have {max_bytes:,}",
            )
        # A device has no length.
        return stream.read(max_bytes)

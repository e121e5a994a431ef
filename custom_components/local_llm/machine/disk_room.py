"""Whether the disk has room for what is to be brought here."""

from contextlib import suppress
from pathlib import Path
import shutil
from typing import Final

from local_llm_engine.config import GIB

from ..failures import EngineUnavailableError, Failure

# What Home Assistant itself needs
_SPARED_BYTES: Final = GIB


def free_bytes(folder: Path) -> int:
    """Return how many bytes could be used at a folder, which need not be there yet."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    return max(0, shutil.disk_usage(place).free - _SPARED_BYTES)


def require_room(folder: Path, nbytes: int) -> None:
    """Refuse what would leave the disk without room for Home Assistant itself.

    Raises:
        EngineUnavailableError: there is not so much room.
    """
    free = free_bytes(folder)
    if nbytes > free:
        detail = f"{nbytes / GIB:.1f} GiB > {free / GIB:.1f} GiB"
        raise EngineUnavailableError(Failure("disk_too_small", detail))


def nbytes_in(folder: Path) -> int:
    """Return how many bytes the files in a folder and below have; none where there is no folder."""
    return sum(map(_nbytes, folder.rglob("*")))


def _nbytes(path: Path) -> int:
    # An engine may remove files of its own meanwhile.
    with suppress(OSError):
        if path.is_file():
            return path.stat().st_size
    return 0

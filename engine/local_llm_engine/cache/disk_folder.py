"""The folder of the disk tier: its lock, what a crash left behind, and files that nobody can use.

Knows names and files; knows nothing of what is in them.
"""

from contextlib import suppress
import fcntl
from io import FileIO
import itertools
import os
from pathlib import Path
import shutil
from typing import Self

from local_llm_engine.errors import EngineError

from .piece_header import SUFFIX

ASIDE_SUFFIX = ".aside"
KEPT_ASIDE = 10
# Whoever else writes to the disk, say a recorder, must not fail for our sake.
SPARED_BYTES = 1 << 30
SPARED_SHARE = 1 / 20
_PARTIAL_SUFFIX = ".partial"


class DiskTierError(EngineError):
    """Nothing can be kept on disk; the message says why, in words for the engine's status."""


class DiskFolder:
    """A folder that one engine at a time keeps pieces in. One thread at a time may use it.

    Files put aside are there for whoever wants to know what happened: the newest one, and of the next
    KEPT_ASIDE - 1 as many as fit into `aside_bytes`.
    """

    def __init__(self, path: Path, descriptor: int, aside_bytes: int) -> None:
        """Use `DiskFolder.open`."""
        self.path = path
        self._descriptor = descriptor
        self._aside_bytes = aside_bytes
        self._aside: list[Path] = []
        self._numbers = itertools.count()

    @classmethod
    def open(cls, path: Path, *, aside_bytes: int) -> Self:
        """Make the folder where there is none, and lock it: the lock ends with the process at the latest.

        Raises:
            DiskTierError: it cannot be used, or another engine uses it.
        """
        try:
            # What people said can be read from token ids: nobody else's business.
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise DiskTierError(
                f"the folder {path} cannot be used ({error.strerror}); no prompts are kept on disk"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            reason = (
                "another engine uses it"
                if isinstance(error, BlockingIOError)
                else f"it cannot be locked: {error.strerror}"
            )
            raise DiskTierError(
                f"the folder {path} is not used, because {reason}; no prompts are kept on disk"
            ) from error
        return cls(path, descriptor, aside_bytes)

    def spare_bytes(self) -> int:
        """Tell how many bytes the disk has left for us.

        Raises:
            OSError: it cannot be asked.
        """
        disk = shutil.disk_usage(self.path)
        return max(0, disk.free - min(SPARED_BYTES, int(disk.total * SPARED_SHARE)))

    def pieces(self) -> list[Path]:
        """List the files of pieces; what a crash left half written is removed.

        Raises:
            OSError: the folder cannot be listed.
        """
        files = list(self.path.iterdir())
        for file in files:
            if file.suffix == _PARTIAL_SUFFIX:
                _unlink(file)
        self._aside = sorted(
            (file for file in files if file.suffix == ASIDE_SUFFIX), key=_changed_ns
        )
        return [file for file in files if file.suffix == SUFFIX]

    def file(self, name: str) -> Path:
        """Say where the piece of a name stands."""
        return self.path / (name + SUFFIX)

    def create_partial(self) -> tuple[Path, FileIO]:
        """Begin a file whose name is not known before its end.

        Raises:
            OSError: the folder cannot be written.
        """
        path = self.path / f"{os.getpid()}-{next(self._numbers)}{_PARTIAL_SUFFIX}"
        return path, FileIO(path, "x", opener=_open_private)

    def publish(self, partial: Path, name: str) -> None:
        """Give a file that was written to the end its name; from here on it outlives any crash.

        Raises:
            OSError: the folder cannot be written.
        """
        partial.replace(self.file(name))
        os.fsync(self._descriptor)

    def touch(self, name: str) -> None:
        """Mark a file as just used."""
        with suppress(OSError):
            os.utime(self.file(name))

    def remove(self, file: Path) -> None:
        """Remove a file, if it is there and may be removed."""
        _unlink(file)

    def put_aside(self, file: Path) -> None:
        """Take a file out of use under another name; the oldest such files go."""
        aside = file.with_name(file.name + ASIDE_SUFFIX)
        with suppress(OSError):
            file.replace(aside)
        self._aside = [*(old for old in self._aside if old != aside), aside]
        num_bytes = 0
        kept: list[Path] = []
        for old in reversed(self._aside):
            num_bytes += _size(old)
            fits = len(kept) < KEPT_ASIDE and num_bytes <= self._aside_bytes
            if fits or not kept:
                kept.append(old)
            else:
                _unlink(old)
        self._aside = kept[::-1]

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._descriptor)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _unlink(file: Path) -> None:
    with suppress(OSError):
        file.unlink()


def _changed_ns(file: Path) -> int:
    with suppress(OSError):
        return file.lstat().st_ctime_ns
    return 0


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.lstat().st_size
    return 0

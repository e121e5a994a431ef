"""Where converted weights are kept, so that only the first load converts: beside the model, or in another folder.

Knows names of files, rooms and rights; knows nothing of what is in them.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
import fcntl
import logging
import os
from pathlib import Path
import shutil
import tempfile

from ..errors import ConversionError, WeightFormatError
from .conversion import (
    Conversion,
    ConvertedFile,
    ConvertingSource,
    Progress,
    RuntimeSource,
    write_converted,
)

FOLDER = "local_llm"
_SUFFIX = ".safetensors"
_PARTIAL = ".partial"
# Whoever else writes to the disk must not fail for our sake.
_SPARED_BYTES = 1 << 30
_SPARED_SHARE = 1 / 20
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Converted weights, a key of their numbers, and what is slower than it could be."""

    source: RuntimeSource
    key: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWeights:
    """Where the outcome of one conversion is kept.

    `name` and `digest` of what it is made of name its file; files of one name and other digests are removed.
    It is looked for in `folders`, and written into the first of `own_folders` that takes it.
    """

    conversion: Conversion
    name: str
    digest: str
    folders: Sequence[Path]
    own_folders: Sequence[Path]

    def find(self) -> Found | None:
        """Find what was converted before; None where nothing sound is kept."""
        for folder in self.folders:
            if found := self._open(folder / self._file_name):
                return found
        return None

    def make(self, progress: Progress) -> Found:
        """Convert, and keep it.

        Raises:
            ConversionError: no folder takes it.
        """
        reasons = []
        for folder in self.own_folders:
            file = folder / self._file_name
            try:
                _write(file, self.conversion, progress)
            except OSError as error:
                reasons.append(f"{folder}: {error.strerror or error}")
                continue
            _remove_others(folder, self.name, keep=file.name)
            if found := self._open(file):
                return found
            reasons.append(f"{folder}: what was written cannot be read")
        raise ConversionError(
            "; ".join(reasons) or "there is no folder to keep them in"
        )

    def make_or_convert_anew(self, progress: Progress) -> Found:
        """Convert, and keep it; where no folder takes it, convert in memory, and again at every load."""
        try:
            return self.make(progress)
        except ConversionError as error:
            notice = f"the weights are converted anew at every start: no folder keeps them ({error})"
        _LOGGER.warning("Of %s, %s", self.name, notice)
        return Found(
            source=ConvertingSource(self.conversion, progress),
            key=self.digest,
            notices=(notice,),
        )

    @property
    def _file_name(self) -> str:
        return f"{self.name}-{self.digest}{_SUFFIX}"

    def _open(self, file: Path) -> Found | None:
        """Open a file if it is there and sound."""
        if not file.is_file():
            return None
        try:
            source = ConvertedFile.open(file, self.conversion)
        except WeightFormatError as error:
            _LOGGER.warning("Converted weights are made anew: %s", error)
            return None
        return Found(source=source, key=f"{self.digest} {source.checksum}")


def _write(file: Path, conversion: Conversion, progress: Progress) -> None:
    """Write a file under another name first: whoever finds it, finds all of it; who fails, leaves nothing.

    Raises:
        OSError: there is no room, or no right to write.
    """
    folder = file.parent
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _remove_abandoned(folder)
        _require_room(folder, conversion.nbytes)
        descriptor, partial = _begin(folder)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                write_converted(stream, conversion, progress)
            partial.replace(file)
            # Who died while this was written has left something, too, and the next load will only look for the file.
            _remove_abandoned(folder)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except BaseException:
        # Only an empty one goes.
        with suppress(OSError):
            folder.rmdir()
        raise


def _require_room(folder: Path, num_bytes: int) -> None:
    disk = shutil.disk_usage(folder)
    spared = min(_SPARED_BYTES, int(disk.total * _SPARED_SHARE))
    if disk.free - spared < num_bytes:
        raise OSError(
            f"{num_bytes} bytes have no room on the disk, which has {max(0, disk.free - spared)} to spare"
        )


def _begin(folder: Path) -> tuple[int, Path]:
    """Make a file to write into, and hold it: what nobody holds was left by a process that died."""
    while True:
        descriptor, name = tempfile.mkstemp(suffix=_PARTIAL, dir=folder)
        partial = Path(name)
        # Some network drives know no locks; there, nobody can hold or remove anything.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if partial.exists():
            return descriptor, partial
        # Somebody cleared up before it was held.
        os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    for partial in folder.glob(f"*{_PARTIAL}"):
        with suppress(OSError), partial.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink()


def _remove_others(folder: Path, name: str, *, keep: str) -> None:
    """Remove what was made of other files or by other rules; who has it mapped keeps it."""
    for file in folder.glob(f"*{_SUFFIX}"):
        own_name, _, _ = file.stem.rpartition("-")
        if own_name == name and file.name != keep:
            with suppress(OSError):
                file.unlink()

"""Where converted weights are kept, so that only the first load converts: beside the model, or in another folder.

Knows names of files, rooms and rights; knows nothing of what is in them.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
import logging
import os
from pathlib import Path
import shutil
import tempfile
import time

from ..errors import WeightFormatError
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
# Nobody writes for as long.
_ABANDONED_SECONDS = 24 * 3600
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


def converted(
    conversion: Conversion,
    *,
    name: str,
    digest: str,
    folders: Sequence[Path],
    progress: Progress,
) -> Found:
    """Find weights that were converted before, or convert them and keep them in the first folder that takes them.

    `name` and `digest` of what they are made of name their file; files of one name and other digests are
    removed. Where no folder takes them, they are converted in memory, and again at every load.
    """
    file_name = f"{name}-{digest}{_SUFFIX}"
    for folder in folders:
        if found := _open(folder / file_name, conversion):
            return Found(source=found, key=f"{digest} {found.checksum}")
    reasons = []
    for folder in folders:
        try:
            _write(folder / file_name, conversion, progress)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
            continue
        _remove_others(folder, name, keep=file_name)
        if found := _open(folder / file_name, conversion):
            return Found(source=found, key=f"{digest} {found.checksum}")
        reasons.append(f"{folder}: what was written cannot be read")
    notice = "the weights are converted anew at every start: no folder keeps them"
    if reasons:
        notice += f" ({'; '.join(reasons)})"
    _LOGGER.warning("Of %s, %s", name, notice)
    return Found(
        source=ConvertingSource(conversion, progress), key=digest, notices=(notice,)
    )


def _open(file: Path, conversion: Conversion) -> ConvertedFile | None:
    """Open a file if it is there and sound."""
    if not file.is_file():
        return None
    try:
        return ConvertedFile.open(file, conversion)
    except WeightFormatError as error:
        _LOGGER.warning("Converted weights are made anew: %s", error)
        return None


def _write(file: Path, conversion: Conversion, progress: Progress) -> None:
    """Write a file under another name first: whoever finds it, finds all of it.

    Raises:
        OSError: there is no room, or no right to write.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(file.parent.glob(f"*{_PARTIAL}"))
    disk = shutil.disk_usage(file.parent)
    spared = min(_SPARED_BYTES, int(disk.total * _SPARED_SHARE))
    if disk.free - spared < conversion.nbytes:
        raise OSError(f"{conversion.nbytes} bytes have no room on the disk")
    descriptor, partial = tempfile.mkstemp(suffix=_PARTIAL, dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            write_converted(stream, conversion, progress)
        Path(partial).replace(file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _remove_abandoned(partials: Iterable[Path]) -> None:
    for partial in partials:
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > _ABANDONED_SECONDS:
                partial.unlink()


def _remove_others(folder: Path, name: str, *, keep: str) -> None:
    """Remove what was made of other files or by other rules; who has it mapped keeps it."""
    for file in folder.glob(f"*{_SUFFIX}"):
        own_name, _, _ = file.stem.rpartition("-")
        if own_name == name and file.name != keep:
            with suppress(OSError):
                file.unlink()

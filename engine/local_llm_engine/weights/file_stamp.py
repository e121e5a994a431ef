"""What tells that a file has been changed since it was read: its size, its time and its number on the disk.

Knows nothing of what is in a file.
"""

from pathlib import Path
from typing import NamedTuple, Self

from ..errors import WeightFormatError


class FileStamp(NamedTuple):
    """Taken before a header is read, and compared before anything of the file is mapped.

    Whoever makes a mapped file shorter ends the process that next reads what is gone: no process can be told
    of that in time.
    """

    file: Path
    num_bytes: int
    time_ns: int
    number: int

    @classmethod
    def of(cls, file: Path) -> Self:
        """Look at a file.

        Raises:
            WeightFormatError: it is not there, or cannot be looked at.
        """
        try:
            status = file.stat()
        except OSError as err:
            raise WeightFormatError(
                f"{file}: cannot be read: {err.strerror or err}"
            ) from err
        return cls(file, status.st_size, status.st_mtime_ns, status.st_ino)

    def require_unchanged(self) -> None:
        """Compare the file with what it was.

        Raises:
            WeightFormatError: it is another, or not there any more.
        """
        if FileStamp.of(self.file) != self:
            raise WeightFormatError(
                f"{self.file}: was changed while it was being loaded; right is to load the model again, "
                "and to replace a file by moving a finished one into its place"
            )

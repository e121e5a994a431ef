"""The prompt cache on disk: which files there are, reading them back, and asking the writer for more.

Its owner is the engine's thread, which never waits for a write. Knows nothing of the prompt tree:
what is worth a file, and what has to go for it, is decided there.
"""

from collections import defaultdict
from collections.abc import Sequence
import logging
from pathlib import Path
import time
from typing import NamedTuple, Self

from .disk_folder import DiskFolder, DiskTierError
from .disk_writer import DiskWriter, PieceFile
from .piece_file import check_bytes, lay_out, map_content
from .piece_header import (
    DamagedPieceError,
    ForeignPieceError,
    PieceFacts,
    StoredPiece,
    TensorBytes,
    make_header,
    read_stored,
)
from .ranks import Rank
from .state import PieceContent

_LOGGER = logging.getLogger(__name__)

# Files that cannot be used stay for inspection up to this share of the limit.
ASIDE_SHARE = 1 / 16
# One line a file, but a folder full of foreign files must not bury the log.
MAX_WARNINGS = 20
# The order of use outlives a restart this exactly; finer would wear the disk.
TOUCH_INTERVAL_SECONDS = 3_600
# Longer names than this would not fit every header.
MAX_SESSION_LENGTH = 1_000
CLOSE_SECONDS = 4.0
# Stands for the name of a parent's file, which may not be known yet.
_ANY_NAME = "0" * 64


class FoundPiece(NamedTuple):
    """A piece that was here when the engine started; `token_ids` are its own, without its parent's."""

    file: PieceFile
    token_ids: tuple[int, ...]
    rank: Rank
    session: str


class Draft(NamedTuple):
    """A file that is laid out and not asked for yet: the bytes that it will take are known."""

    file: PieceFile
    facts: PieceFacts
    tensors: tuple[TensorBytes, ...]


class DiskTier:
    """Files of pieces in one folder, within a limit that its owner keeps to.

    `limit_bytes` is the limit given, or less where the disk has not so much left at the start.
    `booked_bytes` counts what stands and what has been asked for; `sessions` names those on whose
    behalf an earlier run of the engine wrote. A file that stands is never written into.
    """

    def __init__(self, folder: DiskFolder, fingerprint: str, limit_bytes: int) -> None:
        """Use `DiskTier.open`, which says what this may raise."""
        self._folder = folder
        self._fingerprint = fingerprint
        self._num_damaged = 0
        self._found = self._scan()
        self.sessions = frozenset(found.session for found in self._found)
        self.booked_bytes = sum(found.file.nbytes for found in self._found)
        self.limit_bytes = min(limit_bytes, self.booked_bytes + folder.spare_bytes())
        self._writer = DiskWriter(folder, self.booked_bytes)

    @classmethod
    def open(cls, path: Path, *, fingerprint: str, limit_bytes: int) -> Self:
        """Use a folder for what `fingerprint` computes: read all headers, and put aside what is of no use.

        Raises:
            DiskTierError: the folder cannot be used, or another engine uses it.
        """
        folder = DiskFolder.open(path, aside_bytes=int(limit_bytes * ASIDE_SHARE))
        try:
            return cls(folder, fingerprint, limit_bytes)
        except OSError as error:
            folder.close()
            raise DiskTierError(
                f"the folder {path} cannot be read ({error.strerror}); no prompts are kept on disk"
            ) from error

    @property
    def nbytes(self) -> int:
        """Bytes of all files that stand; any thread may ask."""
        return self._writer.nbytes

    @property
    def notices(self) -> tuple[str, ...]:
        """Tell of all that makes the disk of less use than it could be; any thread may ask."""
        notices = [] if self._writer.problem is None else [self._writer.problem]
        if self._num_damaged:
            notices.append(
                f"files of the prompt cache in {self._folder.path} that could not be used: {self._num_damaged};"
                " what they held is read again"
            )
        return tuple(notices)

    @property
    def takes_more(self) -> bool:
        """Whether another file may be asked for now."""
        return self._writer.takes_more

    def take_found(self) -> list[FoundPiece]:
        """Hand over, once, what was here at the start, parents before their children."""
        found, self._found = self._found, []
        return found

    def draft(
        self,
        parent: PieceFile | None,
        token_ids: Sequence[int],
        content: PieceContent,
        rank: Rank,
        session: str,
    ) -> Draft:
        """Lay out the file of a piece of tokens `token_ids`, computed from the one in `parent`."""
        end = content.checkpoint.length
        facts = PieceFacts(
            fingerprint=self._fingerprint,
            parent=_ANY_NAME if parent else None,
            start=end - len(token_ids),
            end=end,
            rank=rank,
            session=session[:MAX_SESSION_LENGTH],
        )
        tensors = lay_out(token_ids, content)
        nbytes = len(make_header(facts, tensors))
        nbytes += sum(tensor.data.nbytes for tensor in tensors)
        return Draft(PieceFile(parent, nbytes, time.time()), facts, tensors)

    def write(self, draft: Draft) -> None:
        """Ask for a drafted file; its parent's must have been asked for."""
        self.booked_bytes += draft.file.nbytes
        self._writer.write(*draft)

    def load(self, file: PieceFile, end: int) -> PieceContent:
        """Map the tensors of a piece that ends at token `end`, its bytes checked once a process and file.

        Raises:
            DamagedPieceError: they are not what was written; the file belongs put aside.
        """
        assert file.name is not None
        path = self._folder.file(file.name)
        file.checked = check_bytes(path, file.checked)
        return map_content(path, end)

    def touch(self, file: PieceFile) -> None:
        """Mark a file as just used."""
        now = time.time()
        if now - file.used_seconds > TOUCH_INTERVAL_SECONDS:
            file.used_seconds = now
            self._writer.touch(file)

    def drop(self, file: PieceFile) -> None:
        """Let a file go, written or not; those of pieces computed from it must have gone."""
        self.booked_bytes -= file.nbytes
        self._writer.remove(file)

    def put_aside(
        self, file: PieceFile, reason: DamagedPieceError, num_descendants: int
    ) -> None:
        """Let a damaged file go, and keep it for whoever wants to know why so many pieces went with it."""
        assert file.name is not None
        self._warn(self._folder.file(file.name), reason, num_descendants)
        self.booked_bytes -= file.nbytes
        self._writer.remove(file, aside=True)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was asked for is done; False where that takes too long."""
        return self._writer.flush(timeout_seconds)

    def close(self) -> None:
        """Write what was asked for, within CLOSE_SECONDS, and unlock the folder; may be called again."""
        self._writer.close(CLOSE_SECONDS)

    def _scan(self) -> list[FoundPiece]:
        """Read all headers; what nobody can go on from leaves the folder.

        Only what is damaged is worth a warning: what another model left was right in its time.
        """
        num_foreign = 0
        children: defaultdict[str | None, list[StoredPiece]] = defaultdict(list)
        for path in self._folder.pieces():
            try:
                stored = read_stored(path, self._fingerprint)
            except ForeignPieceError:
                num_foreign += 1
                self._folder.remove(path)
            except DamagedPieceError as error:
                self._warn(path, error)
                self._folder.put_aside(path)
            else:
                children[stored.facts.parent].append(stored)
        found = self._chains(children)
        orphans = [stored for left in children.values() for stored in left]
        for stored in orphans:
            self._folder.remove(self._folder.file(stored.name))
        _LOGGER.info(
            "Found %d pieces of prompts in %s; removed %d that nothing leads to and %d that another model, or "
            "the same one with other settings, had computed",
            len(found),
            self._folder.path,
            len(orphans),
            num_foreign,
        )
        return found

    def _chains(
        self, children: dict[str | None, list[StoredPiece]]
    ) -> list[FoundPiece]:
        """Take out of `children` all that is led to from the first token on, parents first."""
        found: list[FoundPiece] = []
        waiting: list[tuple[str | None, PieceFile | None, int]] = [(None, None, 0)]
        while waiting:
            name, parent, end = waiting.pop()
            candidates = children.pop(name, [])
            # Where a child begins elsewhere, something else stands under its parent's name.
            children[name] = [
                stored for stored in candidates if stored.facts.start != end
            ]
            for stored in candidates:
                if stored.facts.start == end:
                    file = PieceFile(
                        parent, stored.nbytes, stored.modified_seconds, stored.name
                    )
                    facts = stored.facts
                    found.append(
                        FoundPiece(file, stored.token_ids, facts.rank, facts.session)
                    )
                    waiting.append((stored.name, file, stored.facts.end))
        return found

    def _warn(
        self, path: Path, reason: DamagedPieceError, num_descendants: int = 0
    ) -> None:
        self._num_damaged += 1
        few = self._num_damaged <= MAX_WARNINGS
        _LOGGER.log(
            logging.WARNING if few else logging.DEBUG,
            "Put %s of the prompt cache aside, because %s; what it held is read again%s",
            path,
            reason,
            f", and {num_descendants} pieces computed from it"
            if num_descendants
            else "",
        )

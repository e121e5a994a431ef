"""Which pieces are kept and where: in RAM within one byte budget, on disk within another.

Owns the prompt tree, the pins and the order of eviction; knows nothing of slots.
"""

from collections.abc import Collection, Sequence
import logging

from local_llm_engine.types import Purpose

from .disk import DiskTier
from .eviction import CachedPiece, KeptPiece, next_off_disk, next_out_of_ram
from .piece_header import DamagedPieceError
from .ranks import Rank, Reader
from .state import PieceContent
from .tree import PromptTree

_LOGGER = logging.getLogger(__name__)


class PieceStore:
    """Keeps pieces, finds them again, and makes room. One thread owns it; any may read what is public."""

    def __init__(self, limit_bytes: int, disk: DiskTier | None) -> None:
        """Bound what is kept in RAM; take over what `disk` holds, within its own limit."""
        self.limit_bytes = limit_bytes
        self.disk = disk
        self.tree: PromptTree[CachedPiece] = PromptTree()
        self._pins: dict[str, KeptPiece] = {}
        self._notices: list[str] = []
        if disk:
            self._adopt(disk)
            self._make_disk_room(disk, 0, Rank.PINNED)

    @property
    def notices(self) -> tuple[str, ...]:
        """Tell of all that keeps less than could be kept."""
        return (*self._notices, *(self.disk.notices if self.disk else ()))

    def add(
        self,
        token_ids: Sequence[int],
        parent: KeptPiece | None,
        content: PieceContent,
        reader: Reader,
        cuts: tuple[int, ...],
    ) -> KeptPiece | None:
        """Keep in RAM what was read after `parent` up to the last of `token_ids`; None, said once, without room."""
        if not self._make_room(content.nbytes, reader.may_evict):
            self._tell(
                reader,
                f"the prompt cache of {self.limit_bytes} bytes has no room for every prompt;"
                " parts of some are read again each time",
            )
            return None
        payload = CachedPiece(content, reader.rank(len(token_ids)), cuts)
        return self.tree.add(token_ids, parent, payload, content.nbytes)

    def use(self, piece: KeptPiece, reader: Reader) -> None:
        """Mark a chain as just used, and as dear as its dearest reader."""
        self.tree.touch(piece)
        for part in piece.chain():
            part.payload.rank = max(part.payload.rank, reader.rank(part.end))
            if self.disk and part.payload.file:
                self.disk.touch(part.payload.file)

    def pin(self, session: str, piece: KeptPiece | None) -> None:
        """Keep a piece as its session's own, in place of the one pinned before."""
        old = self._pins.pop(session, None)
        if old is not None:
            old.payload.num_pins -= 1
        if piece is not None:
            piece.payload.num_pins += 1
            self._pins[session] = piece

    def content(self, piece: KeptPiece) -> PieceContent:
        """Hand out a piece's tensors, from RAM or mapped from its file.

        Raises:
            DamagedPieceError: the file does not give them back; `lose` the piece then.
        """
        payload = piece.payload
        if payload.content is not None:
            return payload.content
        assert self.disk
        assert payload.file
        return self.disk.load(payload.file, piece.end)

    def bring_to_ram(
        self,
        chain: Sequence[KeptPiece],
        contents: dict[KeptPiece, PieceContent],
        reader: Reader,
    ) -> None:
        """Keep a copy of what came mapped from disk, as far as there is room beside `chain` itself."""
        for piece, content in contents.items():
            if piece.payload.content is not None:
                continue
            if self._make_room(content.nbytes, reader.may_evict, spared=chain):
                piece.payload.content = content.copy()
                self.tree.resize(piece, content.nbytes)

    def save(self, piece: KeptPiece, reader: Reader) -> None:
        """Ask for files of a piece and of all that it was computed from; what finds no room now waits for its next use."""
        if self.disk is None:
            return
        chain = piece.chain()
        for part in chain:
            if part.payload.file is None and not self._save_one(
                self.disk, part, chain, reader
            ):
                return

    def lose(self, piece: KeptPiece, reason: DamagedPieceError) -> None:
        """Forget a piece whose file is damaged and all that was computed from it; no slot may hold any of these."""
        assert self.disk
        lost = [other for other in self.tree.pieces() if piece in other.chain()]
        for other in sorted(lost, key=lambda lost_piece: -lost_piece.end):
            if other is piece and piece.payload.file:
                self.disk.put_aside(piece.payload.file, reason, len(lost) - 1)
                piece.payload.file = None
            self._forget(other)

    def empty(self) -> None:
        """Let everything leave RAM that is not in use; what is on disk stays known."""
        self._make_room(self.limit_bytes, Rank.PINNED)

    def close(self) -> None:
        """Forget everything in RAM and leave the disk in order."""
        self.tree = PromptTree()
        self._pins.clear()
        if self.disk:
            self.disk.close()

    def check_integrity(self) -> None:
        """Prove the books of bytes, files, pins and tree."""
        self.tree.check_integrity()
        pieces = list(self.tree.pieces())
        for piece in pieces:
            payload = piece.payload
            assert piece.nbytes == (payload.content.nbytes if payload.content else 0)
            assert payload.content is not None or payload.is_on_disk
            if payload.file is not None and piece.parent is not None:
                assert payload.file.parent is piece.parent.payload.file is not None
        assert self.tree.nbytes <= self.limit_bytes
        assert all(piece in pieces for piece in self._pins.values())
        assert sum(piece.payload.num_pins for piece in pieces) == len(self._pins)
        if self.disk:
            files = [piece.payload.file for piece in pieces if piece.payload.file]
            assert self.disk.booked_bytes == sum(file.nbytes for file in files)
            assert self.disk.booked_bytes <= self.disk.limit_bytes

    def _make_room(
        self, nbytes: int, dearest: Rank, spared: Collection[KeptPiece] = ()
    ) -> bool:
        """Evict until `nbytes` fit into RAM; False where all that is left is dearer, spared or in use."""
        if nbytes > self.limit_bytes:
            return False
        while self.tree.nbytes + nbytes > self.limit_bytes:
            piece = next_out_of_ram(list(self.tree.pieces()), dearest, spared)
            if piece is None:
                return False
            if piece.payload.is_on_disk:
                piece.payload.content = None
                self.tree.resize(piece, 0)
            else:
                self._forget(piece)
        return True

    def _make_disk_room(
        self,
        disk: DiskTier,
        nbytes: int,
        dearest: Rank,
        spared: Collection[KeptPiece] = (),
    ) -> bool:
        """Let files go until `nbytes` fit onto the disk; False where all that is left is dearer, spared or in use."""
        if nbytes > disk.limit_bytes:
            return False
        while disk.booked_bytes + nbytes > disk.limit_bytes:
            piece = next_off_disk(list(self.tree.pieces()), dearest, spared)
            if piece is None:
                return False
            if piece.payload.content is None:
                self._forget(piece)
            else:
                self._drop_file(piece)
        return True

    def _save_one(
        self,
        disk: DiskTier,
        piece: KeptPiece,
        chain: Sequence[KeptPiece],
        reader: Reader,
    ) -> bool:
        """Ask for the file of a piece in RAM whose parent has one; False where it finds no room."""
        content = piece.payload.content
        assert content is not None
        if not disk.takes_more:
            return False
        token_ids = self.tree.tokens(piece)[piece.start :]
        parent = piece.parent.payload.file if piece.parent else None
        draft = disk.draft(
            parent, token_ids, content, piece.payload.rank, reader.session
        )
        if not self._make_disk_room(disk, draft.file.nbytes, reader.may_evict, chain):
            self._tell(
                reader,
                f"the prompt cache of {disk.limit_bytes} bytes on disk has no room for every prompt;"
                " some are read again after a restart",
            )
            return False
        disk.write(draft)
        piece.payload.file = draft.file
        return True

    def _forget(self, piece: KeptPiece) -> None:
        for session in [name for name, pinned in self._pins.items() if pinned is piece]:
            del self._pins[session]
        self._drop_file(piece)
        self.tree.remove(piece)

    def _drop_file(self, piece: KeptPiece) -> None:
        if self.disk and piece.payload.file:
            self.disk.drop(piece.payload.file)
            piece.payload.file = None

    def _adopt(self, disk: DiskTier) -> None:
        """Take the pieces found on disk into the tree, the least recently used first in the order of use."""
        pieces: dict[object, KeptPiece] = {}
        for file, own_token_ids, rank, _ in disk.take_found():
            parent = pieces.get(file.parent)
            before = self.tree.tokens(parent) if parent else ()
            token_ids = (*before, *own_token_ids)
            leads_nowhere = file.parent is not None and parent is None
            if leads_nowhere or self.tree.at(token_ids):
                # Two runs over the same tokens; a crash came before the older one was removed.
                disk.drop(file)
                continue
            payload = CachedPiece(None, rank, file=file)
            pieces[file] = self.tree.add(token_ids, parent, payload, 0)
        for piece in sorted(pieces.values(), key=_used_seconds):
            self.tree.touch(piece)

    def _tell(self, reader: Reader, notice: str) -> None:
        """Say once that something was not kept; who only guesses or runs in the background never counted on it."""
        is_wanted = self.limit_bytes and reader.purpose in (
            Purpose.VOICE,
            Purpose.WARM_UP,
        )
        if is_wanted and notice not in self._notices:
            self._notices.append(notice)
            _LOGGER.warning("%s", notice[0].upper() + notice[1:])


def _used_seconds(piece: KeptPiece) -> float:
    return piece.payload.file.used_seconds if piece.payload.file else 0.0

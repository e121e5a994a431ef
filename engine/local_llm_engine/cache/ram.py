"""The prompt cache in RAM: what prompts have read, within a byte budget."""

from collections.abc import Sequence
from dataclasses import dataclass
import logging

from local_llm_engine.types import Purpose

from .ranks import Rank, Reader
from .state import Checkpoint, KVRun, SequenceState
from .tree import Match, Piece, PromptTree

_LOGGER = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class CachedPiece:
    """The tensors of one piece, the KV of its tokens and the recurrent state at its end, and its worth."""

    kv: KVRun
    checkpoint: Checkpoint
    rank: Rank
    num_pins: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.kv.nbytes + self.checkpoint.nbytes


type RamPiece = Piece[CachedPiece]


class Slot:
    """The device-resident state of one live sequence, and which cached pieces its KV repeats.

    `piece` is the deepest one that the slot's sequence has passed, None before the first.
    """

    def __init__(self, state: SequenceState) -> None:
        """Begin with an empty state."""
        self.state = state
        self.piece: RamPiece | None = None


class PromptCache:
    """Keeps what was read and puts it back into a slot, bit for bit. One thread owns it.

    All prompts of one instance share a cache key: one model, one weights format, no adapters.
    """

    def __init__(self, limit_bytes: int, *, half_checkpoints: bool = False) -> None:
        """Bound KV and checkpoints together; 0 keeps nothing.

        `half_checkpoints` keeps delta states in float16: half the bytes, and no longer exact.
        """
        self.limit_bytes = limit_bytes
        self.notices: list[str] = []
        self._half_checkpoints = half_checkpoints
        self._tree: PromptTree[CachedPiece] = PromptTree()
        self._pins: dict[str, RamPiece] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all KV and checkpoints kept."""
        return self._tree.nbytes

    @property
    def num_prompts(self) -> int:
        """How many different prompts (ends of a chain of pieces) are kept."""
        return self._tree.num_leaves

    def find(self, token_ids: Sequence[int], limit: int) -> Match[CachedPiece]:
        """Look a prompt up; the piece to resume from ends at `limit` tokens or before."""
        return self._tree.find(token_ids, limit)

    def restore(self, piece: RamPiece | None, slot: Slot, reader: Reader) -> int:
        """Bring a slot to the end of `piece` (None: to the start); return how many tokens' KV were copied.

        What the slot's KV already repeats stays where it is.
        """
        held = slot.piece.chain() if slot.piece else []
        self._hold(slot, piece)
        if piece is None:
            slot.state.reset()
            return 0
        self._use(piece, reader)
        copied = 0
        for position, part in enumerate(piece.chain()):
            if position >= len(held) or held[position] is not part:
                slot.state.write_kv(part.start, part.payload.kv)
                copied += part.end - part.start
                held = []
        slot.state.restore(piece.payload.checkpoint)
        return copied

    def store(self, token_ids: Sequence[int], slot: Slot, reader: Reader) -> None:
        """Keep what the slot has read since its last piece; `token_ids` are all that its state holds.

        Where another run left a piece at this very token, that one stays and this run's numbers go
        into its next piece: a chain is one run's history. The same where the budget has no room.
        """
        if slot.piece and slot.piece.end == len(token_ids):
            return
        known = self._tree.at(token_ids)
        if known is None:
            self._add(token_ids, slot, reader)
        elif known.parent is slot.piece:
            self._hold(slot, known)
            self._use(known, reader)

    def pin(self, slot: Slot, reader: Reader) -> None:
        """Keep the slot's last piece as its session's own, in place of the one pinned before."""
        old = self._pins.pop(reader.session, None)
        if old is not None:
            old.payload.num_pins -= 1
        if slot.piece is not None:
            slot.piece.payload.num_pins += 1
            self._pins[reader.session] = slot.piece

    def release(self, slot: Slot) -> None:
        """Let go of a slot's pieces: its state is no longer worth anything."""
        self._hold(slot, None)
        slot.state.reset()

    def clear(self) -> None:
        """Forget everything; no slot may be in use any more."""
        self._tree = PromptTree()
        self._pins.clear()

    def check_integrity(self) -> None:
        """Prove the books of bytes, pieces, pins and tree."""
        self._tree.check_integrity()
        assert self._tree.nbytes <= self.limit_bytes
        pieces = list(self._tree.pieces())
        assert all(piece.nbytes == piece.payload.nbytes for piece in pieces)
        assert all(piece in pieces for piece in self._pins.values())
        assert sum(piece.payload.num_pins for piece in pieces) == len(self._pins)

    def _add(self, token_ids: Sequence[int], slot: Slot, reader: Reader) -> None:
        start = slot.piece.end if slot.piece else 0
        payload = CachedPiece(
            kv=slot.state.read_kv(start, len(token_ids)),
            checkpoint=slot.state.checkpoint(half=self._half_checkpoints),
            rank=reader.rank(len(token_ids)),
        )
        if self._make_room(payload.nbytes, reader):
            piece = self._tree.add(token_ids, slot.piece, payload, payload.nbytes)
            self._hold(slot, piece)

    def _use(self, piece: RamPiece, reader: Reader) -> None:
        """Mark a chain as just used, and as dear as its dearest reader."""
        self._tree.touch(piece)
        for part in piece.chain():
            part.payload.rank = max(part.payload.rank, reader.rank(part.end))

    def _make_room(self, nbytes: int, reader: Reader) -> bool:
        """Evict until `nbytes` fit; False, said once, where all that is left is dearer or in use."""
        while self._tree.nbytes + nbytes > self.limit_bytes:
            piece = self._cheapest(reader.may_evict)
            if piece is None:
                self._tell_no_room(reader)
                return False
            self._forget(piece)
        return True

    def _cheapest(self, dearest: Rank) -> RamPiece | None:
        """Find the piece to evict next: nothing goes on from it, and it is no dearer than `dearest`."""
        idle = (
            piece
            for piece in self._tree.pieces()
            if not piece.num_children
            and not piece.num_holders
            and _rank(piece) <= dearest
        )
        return min(
            idle, key=lambda piece: (_rank(piece), piece.last_used), default=None
        )

    def _forget(self, piece: RamPiece) -> None:
        for session in [name for name, pinned in self._pins.items() if pinned is piece]:
            del self._pins[session]
        self._tree.remove(piece)

    def _tell_no_room(self, reader: Reader) -> None:
        if not self.limit_bytes or reader.purpose is Purpose.BACKGROUND:
            return
        notice = (
            f"the prompt cache of {self.limit_bytes} bytes has no room for every prompt;"
            " parts of some are read again each time"
        )
        if notice not in self.notices:
            self.notices.append(notice)
            _LOGGER.warning("%s", notice[0].upper() + notice[1:])

    @staticmethod
    def _hold(slot: Slot, piece: RamPiece | None) -> None:
        if slot.piece:
            slot.piece.num_holders -= 1
        if piece:
            piece.num_holders += 1
        slot.piece = piece


def _rank(piece: RamPiece) -> Rank:
    return Rank.PINNED if piece.payload.num_pins else piece.payload.rank

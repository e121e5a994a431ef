"""The prompt cache in RAM: what finished and unfinished prompts have read, within a byte budget."""

from collections.abc import Sequence
import logging
from typing import NamedTuple

from .state import Checkpoint, KVRun, SequenceState
from .tree import Match, Piece, PromptTree

_LOGGER = logging.getLogger(__name__)


class CachedPiece(NamedTuple):
    """The tensors of one piece: the KV of its tokens and the recurrent state at its end."""

    kv: KVRun
    checkpoint: Checkpoint


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

    def __init__(self, limit_bytes: int) -> None:
        """Bound KV and checkpoints together; 0 keeps nothing."""
        self.limit_bytes = limit_bytes
        self._tree: PromptTree[CachedPiece] = PromptTree()
        self.notices: list[str] = []

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

    def restore(self, piece: RamPiece | None, slot: Slot) -> int:
        """Bring a slot to the end of `piece` (None: to the start); return how many tokens' KV were copied.

        What the slot's KV already repeats stays where it is.
        """
        held = slot.piece.chain() if slot.piece else []
        self._hold(slot, piece)
        if piece is None:
            slot.state.reset()
            return 0
        self._tree.touch(piece)
        copied = 0
        for position, part in enumerate(piece.chain()):
            if position >= len(held) or held[position] is not part:
                slot.state.write_kv(part.start, part.payload.kv)
                copied += part.end - part.start
                held = []
        slot.state.restore(piece.payload.checkpoint)
        return copied

    def store(self, token_ids: Sequence[int], slot: Slot) -> None:
        """Keep what the slot has read since its last piece; `token_ids` are all that its state holds.

        A slot whose last piece is not where its sequence came from (something else was read there
        first, or the budget had no room) keeps nothing more: a chain is one run's history.
        """
        known = self._tree.at(token_ids)
        start = slot.piece.end if slot.piece else 0
        if start == len(token_ids):
            return
        if known is not None:
            if known.parent is slot.piece:
                self._hold(slot, known)
                self._tree.touch(known)
            return
        self._add(token_ids, slot, start)

    def release(self, slot: Slot) -> None:
        """Let go of a slot's pieces: its state is no longer worth anything."""
        self._hold(slot, None)
        slot.state.reset()

    def clear(self) -> None:
        """Forget everything; no slot may be in use any more."""
        self._tree = PromptTree()

    def check_integrity(self) -> None:
        """Prove the books of bytes, pieces and tree."""
        self._tree.check_integrity()
        assert self._tree.nbytes <= self.limit_bytes

    def _add(self, token_ids: Sequence[int], slot: Slot, start: int) -> None:
        payload = CachedPiece(
            kv=slot.state.read_kv(start, len(token_ids)),
            checkpoint=slot.state.checkpoint(),
        )
        nbytes = payload.kv.nbytes + payload.checkpoint.nbytes
        if not self._make_room(nbytes):
            return
        self._hold(slot, self._tree.add(token_ids, slot.piece, payload, nbytes))

    def _make_room(self, nbytes: int) -> bool:
        """Evict until `nbytes` fit; False, said once, where live sequences need all that is left."""
        while self._tree.nbytes + nbytes > self.limit_bytes:
            if self._tree.evict() is None:
                if self.limit_bytes and not self.notices:
                    notice = f"the prompt cache of {self.limit_bytes} bytes is too small for one prompt; parts of it are read again each time"
                    self.notices.append(notice)
                    _LOGGER.warning("%s", notice[0].upper() + notice[1:])
                return False
        return True

    @staticmethod
    def _hold(slot: Slot, piece: RamPiece | None) -> None:
        if slot.piece:
            slot.piece.num_holders -= 1
        if piece:
            piece.num_holders += 1
        slot.piece = piece

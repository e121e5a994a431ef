"""The prompt cache: puts what was read back into a slot, and keeps what a slot has read."""

from collections.abc import Sequence
from typing import NamedTuple

from local_llm_engine.prompts import Checkpoint, Tier

from .disk import DiskTier
from .eviction import CachedPiece, KeptPiece
from .piece_header import DamagedPieceError
from .piece_store import PieceStore
from .ranks import Reader
from .state import PieceContent, SequenceState
from .tree import Match

# A piece that nobody pinned is worth a file once it is resumed from for the second time.
RESUMES_WORTH_A_FILE = 2


class Slot:
    """The device-resident state of one live sequence, and which cached pieces its KV repeats.

    `piece` is the deepest one that the slot's sequence has passed, None before the first. A slot
    strays when that piece is lost: its numbers are good, but continue nothing that is kept. `cuts`
    are the token counts at which reading stopped since that piece; who moves the state notes them.
    """

    def __init__(self, state: SequenceState) -> None:
        """Begin with an empty state."""
        self.state = state
        self.piece: KeptPiece | None = None
        self.strays = False
        self.cuts: list[int] = []


class Restored(NamedTuple):
    """What bringing a slot to a piece took: how many tokens' KV were copied, and the farthest tier needed."""

    copied_tokens: int
    tier: Tier | None


class PromptCache:
    """Keeps what was read and puts it back into a slot, bit for bit. One thread owns it.

    All prompts of one instance share a cache key: one model, one weights format, no adapters.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        half_checkpoints: bool = False,
        disk: DiskTier | None = None,
    ) -> None:
        """Bound KV and checkpoints in RAM together; 0 keeps nothing there. Take over what `disk` holds.

        `half_checkpoints` keeps delta states in float16: half the bytes, and no longer exact.
        """
        self._half_checkpoints = half_checkpoints
        self._store = PieceStore(limit_bytes, disk)
        self._slots: set[Slot] = set()

    @property
    def nbytes(self) -> int:
        """Bytes of all KV and checkpoints kept in RAM."""
        return self._store.tree.nbytes

    @property
    def limit_bytes(self) -> int:
        """Bytes of KV and checkpoints that may be kept in RAM."""
        return self._store.limit_bytes

    @property
    def disk_bytes(self) -> int:
        """Bytes of all files that stand on disk."""
        return self._store.disk.nbytes if self._store.disk else 0

    @property
    def disk_limit_bytes(self) -> int:
        """Bytes that files may take on disk; 0 where there is no disk tier."""
        return self._store.disk.limit_bytes if self._store.disk else 0

    @property
    def num_prompts(self) -> int:
        """How many different prompts (ends of a chain of pieces) are kept."""
        return self._store.tree.num_leaves

    @property
    def earlier_sessions(self) -> frozenset[str]:
        """Name the sessions of which an earlier run of the engine left something on disk."""
        return self._store.disk.sessions if self._store.disk else frozenset()

    @property
    def notices(self) -> tuple[str, ...]:
        """Tell of all that keeps less than could be kept; any thread may ask."""
        return self._store.notices

    def find(self, token_ids: Sequence[int], limit: int) -> Match[CachedPiece]:
        """Look a prompt up; the piece to resume from ends at `limit` tokens or before."""
        return self._store.tree.find(token_ids, limit)

    def checkpoints(
        self, token_ids: Sequence[int], slot: Slot | None
    ) -> tuple[Checkpoint, ...]:
        """Tell where a prompt can be resumed from, as near as `slot` is to it. Changes nothing."""
        in_slot = slot.piece.chain() if slot and slot.piece else []
        found: list[Checkpoint] = []
        piece = self.find(token_ids, len(token_ids)).piece
        while piece is not None:
            in_ram = piece.payload.content is not None
            tier: Tier = "slot" if piece in in_slot else "ram" if in_ram else "disk"
            found.append(Checkpoint(piece.end, tier))
            piece = self.find(token_ids, piece.end - 1).piece
        return tuple(reversed(found))

    def is_in(self, slot: Slot, token_ids: Sequence[int]) -> bool:
        """Tell whether a slot's sequence has passed the piece that ends exactly after `token_ids`."""
        piece = self._store.tree.at(token_ids)
        return slot.piece is not None and piece in slot.piece.chain()

    def resume(
        self, token_ids: Sequence[int], limit: int, slot: Slot, reader: Reader
    ) -> tuple[Match[CachedPiece], Restored]:
        """Look a prompt up and bring a slot there; what the disk gives back damaged was never read."""
        while True:
            match = self.find(token_ids, limit)
            try:
                return match, self.restore(match.piece, slot, reader)
            except DamagedPieceError:
                # The damaged piece has left the tree: the next lookup finds less.
                continue

    def restore(self, piece: KeptPiece | None, slot: Slot, reader: Reader) -> Restored:
        """Bring a slot to the end of `piece` (None: to the start).

        What the slot's KV already repeats stays where it is.

        Raises:
            DamagedPieceError: the disk does not give a piece of the chain back. It has left the tree with
                all that was computed from it; the slot's state is as it was.
        """
        if piece is None:
            self.release(slot)
            return Restored(0, None)
        chain = piece.chain()
        held = slot.piece.chain() if slot.piece else []
        missing = chain[_num_shared(chain, held) :]
        contents = {part: self._content(part) for part in missing or [piece]}
        from_disk = any(part.payload.content is None for part in contents)
        self._hold(slot, piece)
        self._store.use(piece, reader)
        for part in missing:
            slot.state.write_kv(part.start, contents[part].kv)
        slot.state.restore(contents[piece].checkpoint)
        self._store.bring_to_ram(chain, contents, reader)
        piece.payload.num_resumes += 1
        if piece.payload.num_resumes >= RESUMES_WORTH_A_FILE:
            self._store.save(piece, reader)
        return Restored(
            sum(part.end - part.start for part in missing),
            "disk" if from_disk else "ram" if missing else "slot",
        )

    def store(self, token_ids: Sequence[int], slot: Slot, reader: Reader) -> None:
        """Keep what the slot has read since its last piece; `token_ids` are all that its state holds.

        Where another run, cut in other places, left a piece at this very token, that one stays and
        this run's numbers go into its next piece: a chain is one run's history. The same where the
        budget has no room.
        """
        start = slot.piece.end if slot.piece else 0
        if start == len(token_ids) or slot.strays:
            return
        piece = self._store.tree.at(token_ids)
        if piece is None:
            content = PieceContent(
                slot.state.read_kv(start, len(token_ids)),
                slot.state.checkpoint(half=self._half_checkpoints),
            )
            cuts = tuple(slot.cuts)
            piece = self._store.add(token_ids, slot.piece, content, reader, cuts)
        elif piece.parent is slot.piece and piece.payload.cuts == tuple(slot.cuts):
            self._store.use(piece, reader)
        else:
            return
        if piece is not None:
            self._hold(slot, piece)

    def pin(self, slot: Slot, reader: Reader) -> None:
        """Keep the slot's last piece as its session's own, in place of the one pinned before."""
        self._store.pin(reader.session, slot.piece)
        if slot.piece is not None:
            self._store.save(slot.piece, reader)

    def release(self, slot: Slot) -> None:
        """Let go of a slot's pieces: its state is no longer worth anything."""
        self._hold(slot, None)
        slot.state.reset()

    def empty(self) -> None:
        """Let go of everything in RAM that no slot holds; what is on disk stays known."""
        self._store.empty()

    def close(self) -> None:
        """Forget everything in RAM and leave the disk in order, which takes seconds at most; no slot is used again."""
        for slot in tuple(self._slots):
            self._hold(slot, None)
        self._store.close()

    def check_integrity(self) -> None:
        """Prove the books of pieces, bytes, files, pins and slots."""
        self._store.check_integrity()
        held = [slot.piece for slot in self._slots]
        assert None not in held
        for piece in self._store.tree.pieces():
            assert piece.num_holders == held.count(piece)

    def _content(self, piece: KeptPiece) -> PieceContent:
        """Hand out a piece's tensors; a damaged piece leaves the tree, and slots that hold it stray."""
        try:
            return self._store.content(piece)
        except DamagedPieceError as error:
            for slot in tuple(self._slots):
                if slot.piece is not None and piece in slot.piece.chain():
                    self._hold(slot, None)
                    slot.strays = True
            self._store.lose(piece, error)
            raise

    def _hold(self, slot: Slot, piece: KeptPiece | None) -> None:
        if slot.piece:
            slot.piece.num_holders -= 1
        slot.piece = piece
        slot.strays = False
        slot.cuts.clear()
        if piece:
            piece.num_holders += 1
            self._slots.add(slot)
        else:
            self._slots.discard(slot)


def _num_shared(chain: Sequence[KeptPiece], held: Sequence[KeptPiece]) -> int:
    """Count the pieces that two chains begin with in common."""
    shared = 0
    for ours, theirs in zip(chain, held, strict=False):
        if ours is not theirs:
            break
        shared += 1
    return shared

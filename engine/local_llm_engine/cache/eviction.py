"""What goes next where a tier of the prompt cache is full: one order for RAM and disk, and no tensors touched."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from .disk_writer import PieceFile
from .ranks import Rank
from .state import PieceContent
from .tree import Piece


@dataclass(eq=False, slots=True)
class CachedPiece:
    """What is kept of one piece, its tensors in RAM, its file, or both, and what it is worth.

    Where `content` is None the file stands. A piece has a file only if the one it was computed from
    has one. `num_resumes` counts how often a slot has gone on from it. `cuts` are the token counts
    at which the run that made it stopped: two runs over the same tokens have the same numbers only if
    they were cut alike; None where that is not known any more.
    """

    content: PieceContent | None
    rank: Rank
    cuts: tuple[int, ...] | None = None
    file: PieceFile | None = None
    num_pins: int = 0
    num_resumes: int = 0

    @property
    def is_on_disk(self) -> bool:
        """Whether the file stands, and outlives any crash."""
        return self.file is not None and self.file.name is not None


type KeptPiece = Piece[CachedPiece]


def next_out_of_ram(
    pieces: Collection[KeptPiece], dearest: Rank, spared: Collection[KeptPiece]
) -> KeptPiece | None:
    """Choose the piece, no dearer than `dearest`, whose tensors leave RAM next; those computed from it went before.

    One that is on disk stays known; of any other, nothing may be needed any more.
    """
    return _next(
        pieces,
        dearest,
        spared,
        stands_here=lambda payload: payload.content is not None,
        stands_elsewhere=lambda payload: payload.is_on_disk,
    )


def next_off_disk(
    pieces: Collection[KeptPiece], dearest: Rank, spared: Collection[KeptPiece]
) -> KeptPiece | None:
    """Choose the piece, no dearer than `dearest`, whose file goes next; those computed from it went before.

    One that is in RAM stays known; of any other, nothing may be needed any more.
    """
    return _next(
        pieces,
        dearest,
        spared,
        stands_here=lambda payload: payload.file is not None,
        stands_elsewhere=lambda payload: payload.content is not None,
    )


def worth(piece: KeptPiece) -> Rank:
    """Rank a piece: what is pinned is dearest."""
    return Rank.PINNED if piece.payload.num_pins else piece.payload.rank


def _next(
    pieces: Collection[KeptPiece],
    dearest: Rank,
    spared: Collection[KeptPiece],
    *,
    stands_here: Callable[[CachedPiece], bool],
    stands_elsewhere: Callable[[CachedPiece], bool],
) -> KeptPiece | None:
    """Find the cheapest piece that may leave a tier; of equals, the least recently used."""
    here = [piece for piece in pieces if stands_here(piece.payload)]
    needed = {piece.parent for piece in here}
    return min(
        (
            piece
            for piece in here
            if worth(piece) <= dearest
            and piece not in needed
            and piece not in spared
            and (stands_elsewhere(piece.payload) or _is_idle(piece))
        ),
        key=lambda piece: (worth(piece), piece.last_used),
        default=None,
    )


def _is_idle(piece: KeptPiece) -> bool:
    """Whether nothing goes on from a piece."""
    return not piece.num_children and not piece.num_holders

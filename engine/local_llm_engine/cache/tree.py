"""Which token sequences have been read, and how far each can be resumed: an index without tensors.

Two structures share the work. A radix tree over token ids finds, in time linear in the prompt, how
much of it has been read before. On it stand *pieces*: what one run computed between two consecutive
checkpoints. A piece points at the piece that it was computed from, so the chain of a piece is one
run's history bit for bit, and splitting a node of the tree never touches a piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(eq=False, slots=True)
class Piece[Payload]:
    """Tokens start .. end - 1 as one run computed them, and the checkpoint at `end`.

    `num_children` counts pieces computed from this one and `num_holders` live sequences that go on
    from it: while either is above zero the piece stays. `last_used` orders eviction.
    """

    start: int
    end: int
    parent: Piece[Payload] | None
    payload: Payload
    nbytes: int
    num_children: int = 0
    num_holders: int = 0
    last_used: int = 0

    def chain(self) -> list[Piece[Payload]]:
        """List the pieces from the first token up to and with this one."""
        pieces = []
        piece: Piece[Payload] | None = self
        while piece is not None:
            pieces.append(piece)
            piece = piece.parent
        return pieces[::-1]


class Match[Payload](NamedTuple):
    """What the index knows of a prompt.

    `piece` is the deepest one to resume from, None where there is none. The first `num_known_tokens`
    tokens have been read before; `diverges` says that something else was read in place of the next,
    and not only that the prompt repeats or goes on.
    """

    piece: Piece[Payload] | None
    num_known_tokens: int
    diverges: bool


class _Node[Payload]:
    """A run of tokens in the radix tree; `piece` ends exactly where the node ends."""

    __slots__ = ("children", "parent", "piece", "tokens")

    def __init__(self, tokens: tuple[int, ...], parent: _Node[Payload] | None) -> None:
        self.tokens = tokens
        self.parent = parent
        self.children: dict[int, _Node[Payload]] = {}
        self.piece: Piece[Payload] | None = None


class PromptTree[Payload]:
    """The index over everything that one cache key has read. Not thread-safe: one thread owns it."""

    def __init__(self) -> None:
        """Start empty. `nbytes` sums the pieces; `num_leaves` counts those that no other was computed from."""
        self._root: _Node[Payload] = _Node((), None)
        self._nodes: dict[Piece[Payload], _Node[Payload]] = {}
        self._clock = 0
        self.nbytes = 0
        self.num_leaves = 0

    def __len__(self) -> int:
        """How many pieces there are."""
        return len(self._nodes)

    def find(self, tokens: Sequence[int], limit: int) -> Match[Payload]:
        """Look `tokens` up; the piece found ends at `limit` tokens or before. Changes nothing."""
        node, position, piece = self._root, 0, None
        while position < len(tokens):
            child = node.children.get(tokens[position])
            if child is None:
                return Match(piece, position, diverges=bool(node.children))
            shared = shared_length(child.tokens, tokens, position)
            position += shared
            if shared < len(child.tokens):
                return Match(piece, position, diverges=position < len(tokens))
            node = child
            if node.piece is not None and position <= limit:
                piece = node.piece
        return Match(piece, position, diverges=False)

    def at(self, tokens: Sequence[int]) -> Piece[Payload] | None:
        """Find the piece that ends exactly after `tokens`. Changes nothing."""
        piece = self.find(tokens, len(tokens)).piece
        return piece if piece is not None and piece.end == len(tokens) else None

    def add(
        self,
        tokens: Sequence[int],
        parent: Piece[Payload] | None,
        payload: Payload,
        nbytes: int,
    ) -> Piece[Payload]:
        """Record that `tokens` were read, computed from `parent` on; no piece may end there yet."""
        node = self._node_at(tuple(tokens))
        assert node.piece is None
        assert parent is None or parent in self._nodes
        start = parent.end if parent else 0
        piece = Piece(
            start=start, end=len(tokens), parent=parent, payload=payload, nbytes=nbytes
        )
        node.piece = piece
        self._nodes[piece] = node
        if parent:
            self.num_leaves -= not parent.num_children
            parent.num_children += 1
        self.num_leaves += 1
        self.nbytes += nbytes
        self.touch(piece)
        return piece

    def touch(self, piece: Piece[Payload]) -> None:
        """Mark a piece and all that it was computed from as just used."""
        self._clock += 1
        for used in piece.chain():
            used.last_used = self._clock

    def pieces(self) -> Iterator[Piece[Payload]]:
        """Go through all pieces, in no order."""
        return iter(self._nodes)

    def tokens(self, piece: Piece[Payload]) -> tuple[int, ...]:
        """Return all tokens from the first up to the end of `piece`."""
        runs: list[tuple[int, ...]] = []
        node: _Node[Payload] | None = self._nodes[piece]
        while node is not None:
            runs.append(node.tokens)
            node = node.parent
        return tuple(token for run in reversed(runs) for token in run)

    def resize(self, piece: Piece[Payload], nbytes: int) -> None:
        """Book that a piece takes `nbytes` now."""
        self.nbytes += nbytes - piece.nbytes
        piece.nbytes = nbytes

    def remove(self, piece: Piece[Payload]) -> None:
        """Forget a piece that nothing goes on from."""
        assert not piece.num_children
        assert not piece.num_holders
        self._remove(piece)

    def check_integrity(self) -> None:
        """Prove the books: bytes, child counts, and that tree and pieces name each other."""
        nodes = list(_walk(self._root))
        pieces = [node.piece for node in nodes if node.piece is not None]
        assert len(pieces) == len(self._nodes)
        assert self.nbytes == sum(piece.nbytes for piece in pieces)
        assert self.num_leaves == sum(not piece.num_children for piece in pieces)
        for node in nodes:
            assert all(
                child.tokens[0] == first for first, child in node.children.items()
            )
            assert node is self._root or node.children or node.piece
        for piece in pieces:
            assert piece.num_children == sum(other.parent is piece for other in pieces)
            assert piece.start == (piece.parent.end if piece.parent else 0)
            assert piece.parent is None or piece.parent in self._nodes
            assert _depth(self._nodes[piece]) == piece.end

    def _node_at(self, tokens: tuple[int, ...]) -> _Node[Payload]:
        """Find the node that ends exactly after `tokens`; make it or split it off as needed."""
        node, position = self._root, 0
        while position < len(tokens):
            child = node.children.get(tokens[position])
            if child is None:
                child = _Node(tokens[position:], node)
                node.children[tokens[position]] = child
                return child
            shared = shared_length(child.tokens, tokens, position)
            if shared < len(child.tokens):
                child = _split(child, shared)
            node = child
            position += shared
        return node

    def _remove(self, piece: Piece[Payload]) -> None:
        node: _Node[Payload] | None = self._nodes.pop(piece)
        assert node is not None
        node.piece = None
        self.nbytes -= piece.nbytes
        self.num_leaves -= 1
        if piece.parent:
            piece.parent.num_children -= 1
            self.num_leaves += not piece.parent.num_children
        while (
            node is not None
            and node.parent is not None
            and not node.children
            and node.piece is None
        ):
            del node.parent.children[node.tokens[0]]
            node = node.parent


def shared_length(run: tuple[int, ...], tokens: Sequence[int], position: int) -> int:
    """Count how many tokens of `run` stand in `tokens` from `position` on."""
    window = tuple(tokens[position : position + len(run)])
    if window == run:
        return len(run)
    return next(
        (
            index
            for index, (ours, theirs) in enumerate(zip(run, window, strict=False))
            if ours != theirs
        ),
        len(window),
    )


def _split[Payload](node: _Node[Payload], at: int) -> _Node[Payload]:
    """Cut a node's run after `at` tokens; return the new upper half."""
    assert node.parent is not None
    upper: _Node[Payload] = _Node(node.tokens[:at], node.parent)
    node.parent.children[node.tokens[0]] = upper
    node.tokens = node.tokens[at:]
    node.parent = upper
    upper.children[node.tokens[0]] = node
    return upper


def _walk[Payload](root: _Node[Payload]) -> Iterator[_Node[Payload]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children.values())


def _depth[Payload](node: _Node[Payload]) -> int:
    depth = 0
    current: _Node[Payload] | None = node
    while current is not None:
        depth += len(current.tokens)
        current = current.parent
    return depth

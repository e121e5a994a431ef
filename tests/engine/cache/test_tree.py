"""The index of prompts: plain ints, any order of operations."""

from hypothesis import given, strategies as st

from local_llm_engine.cache.tree import Piece, PromptTree

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)


def grow(tree: PromptTree[str], tokens: tuple[int, ...], *ends: int) -> Piece[str]:
    """Read `tokens` from the start, leaving a piece at each of `ends`."""
    piece = None
    for end in ends:
        piece = tree.at(tokens[:end]) or tree.add(tokens[:end], piece, f"0..{end}", 1)
    assert piece is not None
    return piece


def test_empty_tree_knows_nothing() -> None:
    """A first prompt is not a divergence."""
    assert PromptTree[str]().find((1, 2), 2) == (None, 0, False)


def test_a_longer_prompt_goes_on_from_the_deepest_piece() -> None:
    """A prompt that only goes on does not diverge."""
    tree = PromptTree[str]()
    deepest = grow(tree, (1, 2, 3, 4), 2, 4)
    assert tree.find((1, 2, 3, 4, 5), 4) == (deepest, 4, False)


def test_a_repeated_prompt_resumes_below_the_limit() -> None:
    """At least one token is left to compute where the caller asks for that."""
    tree = PromptTree[str]()
    deepest = grow(tree, (1, 2, 3, 4), 2, 4)
    assert tree.find((1, 2, 3, 4), 3) == (deepest.parent, 4, False)
    assert tree.find((1, 2, 3, 4), 4) == (deepest, 4, False)


def test_a_divergence_inside_a_run_is_found_at_its_token() -> None:
    """The first differing token is named, the last piece before it is used."""
    tree = PromptTree[str]()
    deepest = grow(tree, (1, 2, 3, 4), 2, 4)
    assert tree.find((1, 2, 3, 9), 3) == (deepest.parent, 3, True)
    assert tree.find((9, 9), 2) == (None, 0, True)


def test_divergence_at_a_node_with_other_children() -> None:
    """A third branch at a known branching point diverges there."""
    tree = PromptTree[str]()
    grow(tree, (1, 2, 3), 2, 3)
    grow(tree, (1, 2, 4), 2, 3)
    assert tree.find((1, 2, 5), 2).diverges


def test_a_removed_leaf_leaves_its_prefix() -> None:
    """The tree forgets the tokens that nothing else needs."""
    tree = PromptTree[str]()
    first = grow(tree, (1, 2, 3), 2, 3)
    second = grow(tree, (1, 2, 4), 2, 3)
    tree.remove(first)
    assert tree.find((1, 2, 3), 3) == (second.parent, 2, True)
    tree.remove(second)
    assert second.parent is not None
    tree.remove(second.parent)
    assert (len(tree), tree.nbytes, tree.num_leaves) == (0, 0, 0)
    tree.check_integrity()


def test_a_piece_may_change_its_size() -> None:
    """The books follow."""
    tree = PromptTree[str]()
    piece = grow(tree, (1, 2, 3), 3)
    tree.resize(piece, 10)
    assert tree.nbytes == 10
    tree.check_integrity()


@given(
    st.lists(st.tuples(TOKENS, st.lists(st.integers(1, 12), max_size=3)), max_size=30),
    st.data(),
)
def test_books_hold_after_any_operations(
    reads: list[tuple[tuple[int, ...], list[int]]], data: st.DataObject
) -> None:
    """Random reads, holds and evictions keep bytes, counts and positions true, and lookups exact."""
    tree = PromptTree[str]()
    for tokens, marks in reads:
        ends = sorted({min(mark, len(tokens)) for mark in marks} | {len(tokens)})
        grow(tree, tokens, *ends)
        tree.check_integrity()
        match = tree.find(tokens, len(tokens))
        assert match.piece is not None
        assert match.piece.end == len(tokens)
        idle = [piece for piece in tree.pieces() if not piece.num_children]
        for piece in data.draw(
            st.lists(st.sampled_from(idle), max_size=2, unique=True)
        ):
            tree.remove(piece)
        tree.check_integrity()

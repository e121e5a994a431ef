"""Where prefill stops."""

from itertools import pairwise

import pytest

from local_llm_engine.cache.placement import grid_interval, place, stretch_end
from local_llm_engine.prompts import Prompt, Segment


def stops_from(
    start: int, target: int, checkpoints: list[int], chunk: int
) -> list[int]:
    """All stops of a run that begins at `start`."""
    stops = [start]
    while stops[-1] < target:
        stops.append(stretch_end(stops[-1], target, checkpoints, chunk))
    return stops[1:]


@pytest.mark.parametrize(
    ("target", "checkpoints", "chunk", "expected"),
    [
        pytest.param(5, [], 4, [4, 5], id="grid"),
        pytest.param(8, [3, 4, 8], 4, [3, 4, 8], id="checkpoints on and off the grid"),
        pytest.param(3, [5], 4, [3], id="checkpoint past the target"),
        pytest.param(1, [1], 64, [1], id="one token"),
    ],
)
def test_stops_at_checkpoints_grid_and_target(
    target: int, checkpoints: list[int], chunk: int, expected: list[int]
) -> None:
    """Every stop is a checkpoint, a multiple of the chunk or the target."""
    assert stops_from(0, target, checkpoints, chunk) == expected


@pytest.mark.parametrize("chunk", [1, 7, 63, 64, 65])
def test_stops_do_not_depend_on_where_a_run_began(chunk: int) -> None:
    """A run that resumes at a stop makes the same stops after it as a run from the first token."""
    checkpoints = [3, 64, 100, 101, 190]
    cold = stops_from(0, 200, checkpoints, chunk)
    for index, stop in enumerate(cold):
        assert stops_from(stop, 200, checkpoints, chunk) == cold[index + 1 :]


def make_prompt(
    *,
    length: int = 3_000,
    breakpoints: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
    question_start: int = 2_900,
) -> Prompt:
    """Make a prompt of which only the layout counts."""
    return Prompt(
        token_ids=(0,) * length,
        segments=tuple(
            Segment(name=f"segment {end}", end=end) for end in (*ends, length)
        ),
        breakpoints=breakpoints,
        question_start=question_start,
        question_end=length,
    )


SATELLITE = make_prompt(
    breakpoints=(2_700, 2_720, 2_900, 2_990), ends=(2_700, 2_720, 2_900)
)


def test_checkpoints_stand_at_segment_ends_the_question_and_the_target() -> None:
    """Without a grid and without a divergence."""
    stops, checkpoints = place(SATELLITE, target=3_000, divergence=None, interval=None)
    assert stops == (2_700, 2_720, 2_900, 2_990, 3_000)
    assert checkpoints == set(stops)


def test_a_warm_up_leaves_none_past_its_target() -> None:
    """It reads up to the question."""
    stops, checkpoints = place(SATELLITE, target=2_900, divergence=None, interval=None)
    assert stops == (2_700, 2_720, 2_900)
    assert checkpoints == set(stops)


def test_one_checkpoint_is_enough_just_before_the_question() -> None:
    """A satellite's own lines end a few template tokens before the question: still a stop, no second state."""
    prompt = make_prompt(breakpoints=(2_700, 2_895, 2_900), ends=(2_700, 2_895))
    stops, checkpoints = place(prompt, target=2_900, divergence=None, interval=None)
    assert stops == (2_700, 2_895, 2_900)
    assert checkpoints == {2_700, 2_900}


def test_a_grid_stands_inside_long_segments_only() -> None:
    """At absolute multiples, away from the other checkpoints."""
    assert place(SATELLITE, target=3_000, divergence=None, interval=1_024).stops == (
        1_024,
        2_048,
        2_700,
        2_720,
        2_900,
        2_990,
        3_000,
    )
    fine = place(SATELLITE, target=3_000, divergence=None, interval=512).stops
    assert max(after - before for before, after in pairwise((0, *fine))) <= 512


@pytest.mark.parametrize(
    ("divergence", "learned"),
    [
        pytest.param(1_500, True, id="an entity renamed"),
        pytest.param(2_707, False, id="too near to pay"),
        pytest.param(2_708, True, id="just far enough"),
        pytest.param(2_700, False, id="at a checkpoint"),
        pytest.param(2_950, False, id="another question"),
        pytest.param(3_000, False, id="at the end"),
    ],
)
def test_a_checkpoint_is_learned_where_prompts_part(
    divergence: int, learned: bool
) -> None:
    """Where it saves enough the next time."""
    _, plain = place(SATELLITE, target=3_000, divergence=None, interval=1_024)
    stops, checkpoints = place(
        SATELLITE, target=3_000, divergence=divergence, interval=1_024
    )
    assert checkpoints - plain == ({divergence} if learned else set())
    assert stops == tuple(sorted(checkpoints))


def test_a_long_history_stops_at_every_turn_and_keeps_few() -> None:
    """So that what a conversation left turn by turn is met, and reading it at once does not fill the cache."""
    turns = tuple(range(1_000, 2_900, 50))
    prompt = make_prompt(breakpoints=(1_000, *turns[1:], 2_900), ends=(1_000, 2_900))
    stops, checkpoints = place(prompt, target=3_000, divergence=None, interval=1_024)
    assert set(turns) <= set(stops)
    assert len(checkpoints) < 10


@pytest.mark.parametrize(
    ("mebibytes", "gibibytes", "expected"),
    [
        pytest.param(0.3, 8, 512, id="nano"),
        pytest.param(19.3, 8, 512, id="0.8B"),
        pytest.param(50.3, 8, 1_024, id="9B"),
        pytest.param(149.6, 8, 4_096, id="27B"),
        pytest.param(149.6, 0.5, None, id="27B in half a gibibyte"),
        pytest.param(0, 0, 512, id="no recurrent state"),
        pytest.param(1, 0, None, id="no cache"),
    ],
)
def test_the_grid_fits_the_budget(
    mebibytes: float, gibibytes: float, expected: int | None
) -> None:
    """Sizes of real models, a context of 16,384 tokens."""
    interval = grid_interval(
        checkpoint_bytes=int(mebibytes * 2**20),
        context_length=16_384,
        budget_bytes=int(gibibytes * 2**30),
    )
    assert interval == expected


def test_a_short_section_of_the_speakers_own_takes_no_checkpoint_from_the_others() -> (
    None
):
    """Another speaker parts where it begins; its own end is near enough to the question."""
    prompt = make_prompt(ends=(2_000, 2_892, 2_896), breakpoints=(2_000, 2_892, 2_896, 2_900))  # fmt: skip
    placed = place(prompt, target=2_910, divergence=None, interval=None)
    assert placed.checkpoints == {2_000, 2_892, 2_900, 2_910}
    near = make_prompt(ends=(2_000, 2_894, 2_896), breakpoints=(2_000, 2_894, 2_896, 2_900))  # fmt: skip
    placed = place(near, target=2_910, divergence=None, interval=None)
    assert placed.checkpoints == {2_000, 2_894, 2_900, 2_910}

"""Where prefill stops."""

import pytest

from local_llm_engine.cache.placement import stretch_end


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

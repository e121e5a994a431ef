"""Who takes the next step."""

import pytest

from local_llm_engine.runtime.scheduler import Scheduler
from local_llm_engine.runtime.sequence import Phase
from local_llm_engine.types import Purpose

from .sequences import make_sequence


def test_nothing_to_do() -> None:
    """An empty scheduler names nobody."""
    assert Scheduler().next() is None


@pytest.mark.parametrize(
    "arrivals", [[Purpose.WARM_UP, Purpose.BACKGROUND, Purpose.VOICE], list(Purpose)]
)
def test_the_voice_goes_first_whoever_came_before(arrivals: list[Purpose]) -> None:
    """A warm-up that has begun gives way, and goes on when the voice has ended."""
    scheduler = Scheduler()
    order = []
    for purpose in arrivals:
        scheduler.add(make_sequence(purpose))
    while (sequence := scheduler.next()) is not None:
        order.append(sequence.purpose)
        assert scheduler.remove(sequence)
    assert order == sorted(arrivals, key=list(Purpose).index)
    assert order[0] is Purpose.VOICE


def test_equals_take_turns_by_arrival() -> None:
    """A second question waits for the first."""
    scheduler = Scheduler()
    first, second = make_sequence(Purpose.VOICE), make_sequence(Purpose.VOICE)
    scheduler.add(first)
    scheduler.add(second)
    first.phase = Phase.DECODE
    assert scheduler.next() is first
    assert (scheduler.num_running, scheduler.num_waiting) == (1, 1)
    assert scheduler.remove(first)
    assert not scheduler.remove(first)
    assert scheduler.next() is second

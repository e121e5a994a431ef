"""The engine's thread: every sequence ends exactly once, whatever happens."""

from collections.abc import Iterator
import queue
import threading
from typing import cast

import pytest

from local_llm_engine.errors import (
    EngineClosedError,
    EngineError,
    GenerationError,
    OutOfMemoryError,
)
from local_llm_engine.runtime.loop import EngineLoop
from local_llm_engine.runtime.runner import Runner
from local_llm_engine.runtime.sequence import (
    FailEvent,
    FinishEvent,
    Phase,
    Sequence,
    SequenceEvent,
)
from local_llm_engine.types import FinishReason, Purpose

from .sequences import make_sequence


class SteppingRunner:
    """Stands in for a runner: a step of a sequence lasts until the test lets it end."""

    def __init__(self) -> None:
        self.stepped: queue.SimpleQueue[Sequence] = queue.SimpleQueue()
        self.go_on: queue.SimpleQueue[BaseException | FinishReason | None] = (
            queue.SimpleQueue()
        )
        self.abandoned: list[Sequence] = []
        self.discarded: list[tuple[Sequence, str]] = []
        self.displaced: list[Sequence] = []
        self.thread = threading.current_thread()

    def step(self, sequence: Sequence) -> None:
        sequence.phase = Phase.DECODE
        self.stepped.put(sequence)
        outcome = self.go_on.get(timeout=10)
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is not None:
            sequence.phase = Phase.ENDED
            sequence.emit(FinishEvent(outcome, sequence.usage(), sequence.outcome))  # type: ignore[arg-type]

    def abandon(self, sequence: Sequence) -> None:
        self.abandoned.append(sequence)

    def give_way(self, sequence: Sequence) -> None:
        self.displaced.append(sequence)

    def discard(self, sequence: Sequence, finish: str = "error") -> None:
        self.discarded.append((sequence, finish))


class Caller:
    """Makes sequences and keeps what they emit."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[SequenceEvent] = queue.SimpleQueue()

    def sequence(self, purpose: Purpose = Purpose.VOICE) -> Sequence:
        return make_sequence(purpose, self.events.put)

    def next_event(self) -> SequenceEvent:
        return self.events.get(timeout=10)


@pytest.fixture
def runner() -> SteppingRunner:
    return SteppingRunner()


@pytest.fixture
def loop(runner: SteppingRunner) -> Iterator[EngineLoop]:
    loop = EngineLoop(lambda: cast("Runner", runner))
    yield loop
    runner.go_on.put(None)
    loop.close()


def test_a_sequence_ends_and_the_next_one_follows(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """One after the other, on one thread."""
    first, second = Caller(), Caller()
    loop.submit(first.sequence())
    loop.submit(second.sequence())
    for caller in (first, second):
        runner.go_on.put(FinishReason.STOP)
        assert isinstance(caller.next_event(), FinishEvent)
    assert loop.scheduler.sequences() == []


def test_a_warm_up_gives_way_between_two_steps(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """The voice waits for one step at most."""
    warm_up, voice = Caller().sequence(Purpose.WARM_UP), Caller().sequence()
    loop.submit(warm_up)
    assert runner.stepped.get(timeout=10) is warm_up
    loop.submit(voice)
    runner.go_on.put(None)
    assert runner.stepped.get(timeout=10) is voice
    runner.go_on.put(FinishReason.STOP)
    assert runner.stepped.get(timeout=10) is warm_up
    runner.go_on.put(FinishReason.STOP)


def test_a_prefetch_leaves_when_a_question_comes(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """It reads in the voice's slot; a warm-up and another prefetch leave it there."""
    running, waiting = (Caller().sequence(Purpose.PREFETCH) for _ in range(2))
    loop.submit(running)
    assert runner.stepped.get(timeout=10) is running
    loop.submit(waiting)
    loop.submit(Caller().sequence(Purpose.WARM_UP))
    runner.go_on.put(None)
    assert runner.stepped.get(timeout=10) is running
    assert runner.displaced == []
    voice = Caller().sequence()
    loop.submit(voice)
    runner.go_on.put(None)
    assert runner.stepped.get(timeout=10) is voice
    assert runner.displaced == [running, waiting]
    late = Caller().sequence(Purpose.PREFETCH)
    loop.submit(late)
    runner.go_on.put(FinishReason.STOP)
    assert runner.stepped.get(timeout=10) is late
    runner.go_on.put(FinishReason.STOP)
    runner.stepped.get(timeout=10)
    runner.go_on.put(FinishReason.STOP)
    assert len(runner.displaced) == 2


def test_a_cancelled_sequence_is_abandoned_before_its_next_step(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """Cancelling twice, or after the end, does nothing."""
    caller = Caller()
    sequence = caller.sequence()
    loop.submit(sequence)
    runner.stepped.get(timeout=10)
    loop.cancel(sequence)
    loop.cancel(sequence)
    other = caller.sequence()
    loop.submit(other)
    runner.go_on.put(None)
    assert runner.stepped.get(timeout=10) is other
    assert runner.abandoned == [sequence]
    runner.go_on.put(FinishReason.STOP)
    assert isinstance(caller.next_event(), FinishEvent)
    assert caller.events.empty()


def test_a_failing_step_fails_its_own_sequence_alone(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """The engine goes on, and says what happened."""
    broken, healthy = Caller(), Caller()
    loop.submit(broken.sequence())
    runner.go_on.put(MemoryError("no room"))
    event = broken.next_event()
    assert isinstance(event, FailEvent)
    assert isinstance(event.error, GenerationError)
    assert "no room" in str(event.error)
    assert len(runner.discarded) == 1
    loop.submit(healthy.sequence())
    runner.go_on.put(FinishReason.STOP)
    assert isinstance(healthy.next_event(), FinishEvent)


@pytest.mark.parametrize(
    ("error", "finish"),
    [
        (OutOfMemoryError("cpu", None), "out_of_memory"),
        (GenerationError("no numbers"), "error"),
    ],
)
def test_an_error_of_the_engine_itself_reaches_the_caller_as_it_is(
    loop: EngineLoop, runner: SteppingRunner, error: EngineError, finish: str
) -> None:
    """And leaves its own mark in the record."""
    caller = Caller()
    loop.submit(sequence := caller.sequence())
    runner.go_on.put(error)
    event = caller.next_event()
    assert isinstance(event, FailEvent)
    assert event.error is error
    assert runner.discarded == [(sequence, finish)]


def test_it_runs_until_it_is_closed(loop: EngineLoop, runner: SteppingRunner) -> None:
    """As whoever shows it to a person wants to know."""
    assert loop.is_running
    loop.close()
    assert not loop.is_running


def test_closing_fails_what_runs_and_refuses_what_comes(runner: SteppingRunner) -> None:
    """The thread has ended when close returns; closing again is harmless."""
    loop = EngineLoop(lambda: cast("Runner", runner))
    caller = Caller()
    loop.submit(caller.sequence())
    loop.submit(caller.sequence())
    runner.stepped.get(timeout=10)
    closing = threading.Thread(target=loop.close)
    closing.start()
    runner.go_on.put(None)
    closing.join(timeout=10)
    events = [caller.next_event(), caller.next_event()]
    assert [type(event.error) for event in events if isinstance(event, FailEvent)] == [
        EngineClosedError
    ] * 2
    with pytest.raises(EngineClosedError):
        loop.submit(caller.sequence())
    loop.close()
    assert not any(
        thread.name == "local_llm_engine" for thread in threading.enumerate()
    )


def test_a_failed_load_is_raised_where_the_loop_was_made() -> None:
    """And leaves no thread behind."""

    def load() -> Runner:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        EngineLoop(load)
    assert not any(
        thread.name == "local_llm_engine" for thread in threading.enumerate()
    )


class Panic(BaseException):
    """Stands for a panic in a library, which is no Exception."""


def test_a_panic_leaves_nobody_waiting(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """Neither the request that met it nor the next one."""
    broken, healthy = Caller(), Caller()
    loop.submit(broken.sequence())
    runner.go_on.put(Panic("panic"))
    assert isinstance(broken.next_event(), FailEvent)
    loop.submit(healthy.sequence())
    runner.go_on.put(FinishReason.STOP)
    assert isinstance(healthy.next_event(), FinishEvent)


def test_a_panic_while_loading_is_raised_where_the_loop_was_made() -> None:
    """The caller does not wait for ever."""

    def load() -> Runner:
        raise Panic("panic")

    with pytest.raises(EngineError, match="panic"):
        EngineLoop(load)


def test_a_question_is_answered_between_two_steps(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    """On the runner's thread; what goes wrong belongs to the one who asks, and nothing to one who left."""
    caller = Caller()
    loop.submit(caller.sequence())
    runner.stepped.get(timeout=10)
    right = loop.ask(lambda asked: asked is runner and threading.current_thread())
    wrong = loop.ask(lambda _: 1 // 0)
    left = loop.ask(lambda _: "nobody listens")
    assert left.cancel()
    assert not right.done()
    runner.go_on.put(None)
    assert right.result(timeout=10) is loop._thread
    with pytest.raises(ZeroDivisionError):
        wrong.result(timeout=10)
    runner.go_on.put(FinishReason.STOP)
    assert isinstance(caller.next_event(), FinishEvent)


def test_a_closed_loop_answers_no_question(
    loop: EngineLoop, runner: SteppingRunner
) -> None:
    loop.close()
    with pytest.raises(EngineClosedError):
        loop.ask(lambda asked: asked)

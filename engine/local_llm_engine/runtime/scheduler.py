"""Who takes the next step: the voice first, then by arrival. Plain Python, no tensors."""

from local_llm_engine.types import Purpose

from .sequence import Phase, Sequence


class Scheduler:
    """The sequences that wait or run, one queue a purpose.

    Of each purpose one sequence runs at a time, so one slot a purpose suffices. A step of a less
    urgent purpose is taken only when no more urgent sequence is there: between two steps a warm-up
    gives way to a spoken question and keeps its slot. A prefetch, which reads in the voice's slot, leaves.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._queues: dict[Purpose, list[Sequence]] = {
            purpose: [] for purpose in Purpose
        }

    def add(self, sequence: Sequence) -> None:
        """Let a sequence wait for its turn."""
        self._queues[sequence.purpose].append(sequence)

    def displaced_by(self, sequence: Sequence) -> list[Sequence]:
        """Name those that cannot go on once a sequence is here, for it is more urgent and takes their slot."""
        slot = sequence.purpose.slot
        return [
            other
            for purpose, queue in self._queues.items()
            if purpose.slot is slot and purpose is not slot is sequence.purpose
            for other in queue
        ]

    def remove(self, sequence: Sequence) -> bool:
        """Take a sequence out; False where it had left before."""
        queue = self._queues[sequence.purpose]
        if sequence not in queue:
            return False
        queue.remove(sequence)
        return True

    def next(self) -> Sequence | None:
        """Name the sequence whose step comes next, None when there is nothing to do."""
        return next((queue[0] for queue in self._queues.values() if queue), None)

    def sequences(self) -> list[Sequence]:
        """All sequences, the most urgent first."""
        return [sequence for queue in self._queues.values() for sequence in queue]

    @property
    def num_running(self) -> int:
        """How many have taken a step and not ended."""
        return sum(
            sequence.phase in (Phase.PREFILL, Phase.DECODE)
            for sequence in self.sequences()
        )

    @property
    def num_waiting(self) -> int:
        """How many have not begun."""
        return sum(sequence.phase is Phase.WAITING for sequence in self.sequences())

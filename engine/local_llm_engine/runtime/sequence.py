"""One accepted request on its way through the engine: numbers and phases, no tensors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
import time
from typing import Protocol

from local_llm_engine.cache.placement import Placement
from local_llm_engine.cache.ranks import Reader
from local_llm_engine.prompts import Prompt, Tier
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.types import CallRecord, FinishReason, Outcome, Purpose, Usage


class Phase(Enum):
    """Where a sequence stands."""

    WAITING = auto()
    PREFILL = auto()
    DECODE = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One answer token was chosen."""

    token_id: int


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The sequence ended as asked; the last event."""

    reason: FinishReason
    usage: Usage
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class FailEvent:
    """The sequence ended in an error; the last event."""

    error: Exception


type SequenceEvent = TokenEvent | FinishEvent | FailEvent


class Guide(Protocol):
    """Says which tokens may come next in one answer; asked by the engine's thread only."""

    def allowed(self) -> bytes | None:
        """Return one bit for each token that may come next, the lowest first; None where every one may."""

    def accept(self, token_id: int) -> None:
        """Go on with the token that was chosen, an end token excepted."""


@dataclass(eq=False, slots=True, kw_only=True)
class Sequence:
    """A request's prompt, its limits, and how far it has come.

    `target` is how many prompt tokens are read: all for an answer, those before the question for a
    warm-up. `guide` holds the answer to what it must be. `emit` delivers events from the engine's thread; it must not block.
    """

    prompt: Prompt
    sampling: SamplingParams
    purpose: Purpose
    session: str
    target: int
    max_tokens: int
    end_token_ids: frozenset[int]
    emit: Callable[[SequenceEvent], None]
    guide: Guide | None = None

    phase: Phase = Phase.WAITING
    has_begun_again: bool = False
    answer: list[int] = field(default_factory=list)
    reused_tokens: int = 0
    resumed_from: Tier | None = None
    outcome: Outcome = Outcome.FIRST_TURN
    divergence: int | None = None
    placement: Placement | None = None
    accepted_at: float = field(default_factory=time.perf_counter)
    started_at: float | None = None
    prefilled_at: float | None = None

    @property
    def reader(self) -> Reader:
        """On whose behalf the cache reads and keeps."""
        return Reader(self.purpose, self.session, self.prompt.question_start)

    @property
    def answers(self) -> bool:
        """Whether an answer follows the prompt; a warm-up gives none."""
        return self.max_tokens > 0

    def usage(self) -> Usage:
        """Sum up what the sequence has cost up to now."""
        now = time.perf_counter()
        started = self.started_at or now
        prefilled = self.prefilled_at or now
        return Usage(
            prompt_tokens=self.target,
            question_tokens=self.prompt.question_tokens,
            reused_tokens=self.reused_tokens,
            reread_tokens=self.target - self.reused_tokens,
            completion_tokens=len(self.answer),
            queue_seconds=started - self.accepted_at,
            prefill_seconds=prefilled - started,
            decode_seconds=now - prefilled,
            time_to_first_token_seconds=prefilled - self.accepted_at,
        )

    def record(self, finish: str) -> CallRecord:
        """Make the call record of a sequence that ended in `finish`."""
        return CallRecord(
            ended_at=time.time(),
            purpose=self.purpose,
            session=self.session,
            adapter=None,
            outcome=self.outcome,
            resumed_from=self.resumed_from,
            divergence_token=self.divergence,
            divergence_segment=None
            if self.divergence is None
            else self.prompt.segment_at(self.divergence),
            finish=finish,
            usage=self.usage(),
        )

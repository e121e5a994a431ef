"""A tokenized prompt, and what the engine knows of one.

Knows nothing of messages, nor of tensors.
"""

from dataclasses import dataclass
from typing import Literal

type Tier = Literal["slot", "ram", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A named stretch of a tokenized prompt, up to token `end` (exclusive)."""

    name: str
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered and tokenized prompt.

    `segments` cover it in order, without gaps. `breakpoints` are the token counts after which a
    checkpoint is worth taking: segment ends, the start of the last user message, the token at which
    the next turn's re-rendered history will leave this prompt; ascending, each in 1 .. len(token_ids).
    The words of the last user message are tokens `question_start` up to `question_end`.
    """

    token_ids: tuple[int, ...]
    segments: tuple[Segment, ...]
    breakpoints: tuple[int, ...]
    question_start: int
    question_end: int

    @property
    def question_tokens(self) -> int:
        """How many tokens the last user message's own words take."""
        return self.question_end - self.question_start

    def segment_at(self, token: int) -> str:
        """Name the segment that holds the token at index `token`."""
        return next(
            (segment.name for segment in self.segments if token < segment.end), "end"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSegment:
    """A segment of an inspected prompt: how many tokens it takes, and what they spell."""

    name: str
    num_tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place in a prompt that it can be resumed from: after so many tokens, at the nearest in this tier."""

    num_tokens: int
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What the engine knows of a prompt up to the words of its last user message.

    `segments` cover these tokens without gaps; `breakpoints` and `checkpoints` ascend. The first
    `num_known_tokens` have been read before; reading resumes after `resumes_at`.
    """

    segments: tuple[InspectedSegment, ...]
    breakpoints: tuple[int, ...]
    checkpoints: tuple[Checkpoint, ...]
    num_known_tokens: int

    @property
    def num_tokens(self) -> int:
        """How many tokens stand before the question."""
        return sum(segment.num_tokens for segment in self.segments)

    @property
    def resumes_at(self) -> int:
        """The token count of the deepest checkpoint."""
        return self.checkpoints[-1].num_tokens if self.checkpoints else 0

    @property
    def reread_tokens(self) -> int:
        """How many tokens the next question would read again, its own words not counted."""
        return self.num_tokens - self.resumes_at

    @property
    def text(self) -> str:
        """All that stands before the question, control tokens by their names."""
        return "".join(segment.text for segment in self.segments)

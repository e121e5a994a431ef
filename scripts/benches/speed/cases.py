"""What is measured, and how many times as quick as the peer it is to be; pure."""

from dataclasses import dataclass
from typing import Literal

type Kind = Literal["prefill", "decode", "first token"]

ANSWER_TOKENS = 64
# The everyday question on the prompt of a home: what a satellite that is warm has read, and what is asked.
PROMPT_TOKENS = 5_700
QUESTION_TOKENS = 12
# What the peer reads for it: with what a template puts around the question.
PEER_QUESTION_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure: `num_tokens` are read, or written, after `depth` others.

    `least_ratio` is the peer's seconds to ours for the same work, at least.
    """

    name: str
    kind: Kind
    num_tokens: int
    depth: int
    least_ratio: float


def _prefill(num_tokens: int, least_ratio: float) -> Case:
    return Case(
        name=f"prefill-{num_tokens}",
        kind="prefill",
        num_tokens=num_tokens,
        depth=0,
        least_ratio=least_ratio,
    )


def _decode(depth: int) -> Case:
    return Case(
        name=f"decode-{depth}",
        kind="decode",
        num_tokens=ANSWER_TOKENS,
        depth=depth,
        least_ratio=1.0,
    )


CASES = (
    _prefill(16, 1.0),
    _prefill(64, 1.3),
    _prefill(512, 2.0),
    _prefill(5_000, 2.0),
    _decode(0),
    _decode(PROMPT_TOKENS),
    # At most 1.3 times what the peer takes to read as much and write one token.
    Case(
        name="first-token",
        kind="first token",
        num_tokens=QUESTION_TOKENS,
        depth=PROMPT_TOKENS,
        least_ratio=1 / 1.3,
    ),
)

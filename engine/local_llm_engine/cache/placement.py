"""Where prefill stops and where checkpoints stand: pure functions of the prompt and of absolute positions.

A run that resumes must cut what it reads exactly as a run from the first token would, since the
length of a stretch decides how its sums are rounded. So nothing here knows where a run began.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from local_llm_engine.prompts import Prompt

# A checkpoint where prompts were seen to part saves this many tokens at least, each time they part
# there again; inside a question, which seldom comes again, it must save more.
MINIMUM_LEARNED_TOKENS = 8
MINIMUM_LEARNED_QUESTION_TOKENS = 64

# The grid inside long segments: never closer than this, and a prompt of the whole context length
# spends at most this share of the cache's budget on it.
MINIMUM_GRID_TOKENS = 512
GRID_BUDGET_SHARE = 1 / 8


def grid_interval(
    *, checkpoint_bytes: int, context_length: int, budget_bytes: int
) -> int | None:
    """Choose the distance, in tokens, of checkpoints inside long segments; None where even one is too dear.

    The interval is the smallest power of two times MINIMUM_GRID_TOKENS that keeps within
    GRID_BUDGET_SHARE of `budget_bytes`. A model without recurrent state has checkpoints of no bytes.
    """
    interval = MINIMUM_GRID_TOKENS
    affordable = budget_bytes * GRID_BUDGET_SHARE
    while context_length // interval * checkpoint_bytes > affordable:
        interval *= 2
    return interval if interval < context_length else None


class Placement(NamedTuple):
    """Token counts, ascending: where a run must stop, and after which stops it leaves a checkpoint."""

    stops: tuple[int, ...]
    checkpoints: frozenset[int]


def place(
    prompt: Prompt, *, target: int, divergence: int | None, interval: int | None
) -> Placement:
    """Decide where a run over the first `target` tokens of a prompt stops and what it leaves behind.

    It stops at every breakpoint. It leaves a checkpoint at those that end a segment, at those from the
    question on, and, so that a long history read at once does not fill the cache, at those inside a
    segment that lie half an `interval` apart; at multiples of `interval`, so that whatever changes
    inside a long segment costs one of them more than what follows; and at `divergence`, the token
    where this prompt parts from all that was read before, where the checkpoint before it is far
    enough away to pay. Just before the question's first word one is enough, so that a warm satellite
    costs one. The target always is a stop with a checkpoint.
    """
    breakpoints = [position for position in prompt.breakpoints if position < target]
    segment_ends = {segment.end for segment in prompt.segments}
    kept = [0]
    for position in breakpoints:
        if _is_spared(position, prompt):
            continue
        essential = position in segment_ends or position >= prompt.question_start
        if essential or not interval or position - kept[-1] >= interval // 2:
            kept.append(position)
    kept.append(target)
    if interval:
        kept += _grid(kept, target, interval)
    if divergence is not None and divergence < target:
        in_question = divergence >= prompt.question_start
        least = (
            MINIMUM_LEARNED_QUESTION_TOKENS if in_question else MINIMUM_LEARNED_TOKENS
        )
        if divergence - max(mark for mark in kept if mark <= divergence) >= least:
            kept.append(divergence)
    checkpoints = frozenset(kept) - {0}
    return Placement(tuple(sorted(checkpoints.union(breakpoints))), checkpoints)


def stretch_end(position: int, target: int, stops: Sequence[int], chunk: int) -> int:
    """Find the token count at which a prefill step that begins at `position` stops.

    It is the first of: the next of `stops`, the next multiple of `chunk`, the target.
    `stops` ascend.
    """
    end = min(target, position - position % chunk + chunk)
    following = bisect_right(stops, position)
    return min(end, stops[following]) if following < len(stops) else end


def _is_spared(position: int, prompt: Prompt) -> bool:
    """Whether a checkpoint here saves nothing over the one at the question's first word.

    Where a segment that is the speaker's own lies between, however short, others part here.
    """
    question = prompt.question_start
    return 0 < question - position < MINIMUM_LEARNED_TOKENS and not any(
        position < segment.end < question for segment in prompt.segments
    )


def _grid(marks: Sequence[int], target: int, interval: int) -> list[int]:
    """Pick the multiples of `interval` that stand at none of the ascending `marks`, so that no gap is wider."""
    return [
        position
        for position in range(interval, target, interval)
        if _distance(marks, position) >= MINIMUM_LEARNED_TOKENS
    ]


def _distance(marks: Sequence[int], position: int) -> int:
    """Measure how far the nearest of ascending `marks` lies from `position`."""
    index = bisect_left(marks, position)
    nearest = marks[max(0, index - 1) : index + 1]
    return min(abs(mark - position) for mark in nearest)

"""What a change in a prompt costs: how many tokens from there on are read again, and for how long."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from local_llm_engine.prompts import InspectedSegment
from local_llm_engine.types import CallRecord, ChatRequest, TextPart

if TYPE_CHECKING:
    from ..entry_engine import EntryEngine

_CUT = "cut "
# A prompt of fewer tokens takes as long as the engine needs to begin.
_WORTH_MEASURING_TOKENS = 64


def with_instructions(request: ChatRequest, text: str) -> ChatRequest:
    """Return a request whose instructions have become this text."""
    head, *others = request.messages
    first, *parts = head.parts
    line_break = "\n" if parts else ""
    first = replace(first, text=f"{text}{line_break}")
    return replace(request, messages=(replace(head, content=(first, *parts)), *others))


async def async_tokens_from(
    engine: EntryEngine, request: ChatRequest, positions: Iterable[int]
) -> dict[int, int]:
    """Return for each position, in characters of the system text, how many tokens stand from there to the question.

    A negative one stands for the tools, which are read before that text.

    Raises:
        EngineError: the engine cannot look at the request.
    """
    head, *others = request.messages
    places = {position: min(position, len(head.text)) for position in positions}
    cuts = sorted({place for place in places.values() if place >= 0})
    parts = _cut(head.text, cuts)
    inspection = await engine.inspect(
        replace(request, messages=(replace(head, content=parts), *others))
    )
    before = {
        place: _tokens_before(inspection.segments, cuts.index(place)) for place in cuts
    }
    return {
        position: inspection.num_tokens - before.get(place, 0)
        for position, place in places.items()
    }


def prefill_tokens_per_second(records: Sequence[CallRecord]) -> float | None:
    """Return how fast the engine has read prompts lately; None where it has read none worth measuring."""
    usages = [
        record.usage
        for record in records
        if record.usage.reread_tokens >= _WORTH_MEASURING_TOKENS
        and record.usage.prefill_seconds > 0
    ]
    if not usages:
        return None
    return sum(usage.reread_tokens for usage in usages) / sum(
        usage.prefill_seconds for usage in usages
    )


def _cut(text: str, cuts: Sequence[int]) -> tuple[TextPart, ...]:
    """Divide a text at these positions; each part is named after the number of cuts before it."""
    return tuple(
        TextPart(text=text[start:end], segment=f"{_CUT}{index}")
        for index, (start, end) in enumerate(pairwise([0, *cuts, len(text)]))
        if start < end
    )


def _tokens_before(segments: Iterable[InspectedSegment], cut: int) -> int:
    """Count the tokens of all segments before a cut; one that has no tokens of its own is not there."""
    before, was_cut = 0, False
    for segment in segments:
        number = segment.name.removeprefix(_CUT)
        is_cut = number != segment.name
        if (is_cut and int(number) > cut) or (was_cut and not is_cut):
            break
        was_cut = was_cut or is_cut
        before += segment.num_tokens
    return before

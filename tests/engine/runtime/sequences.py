"""Sequences of one token, for tests in which only their order and their end count."""

from collections.abc import Callable

from local_llm_engine.prompts import Prompt
from local_llm_engine.runtime.sequence import Sequence, SequenceEvent
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.types import Purpose


def make_sequence(
    purpose: Purpose, emit: Callable[[SequenceEvent], None] = lambda _: None
) -> Sequence:
    """Make a sequence with nothing to do."""
    return Sequence(
        prompt=Prompt(
            token_ids=(1,),
            segments=(),
            breakpoints=(),
            question_start=0,
            question_end=1,
        ),
        sampling=SamplingParams(),
        purpose=purpose,
        session="",
        target=1,
        max_tokens=1,
        end_token_ids=frozenset(),
        emit=emit,
    )

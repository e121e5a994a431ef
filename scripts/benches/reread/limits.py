"""How many tokens of a prompt a request may read again, and why; pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from local_llm_engine.prompts import Prompt

# What the template puts around a question's words, which has to be read with them
TEMPLATE_TOKENS = 12


class Limit(NamedTuple):
    """At most so many tokens, in words and as a number; None where nothing could be known before."""

    words: str
    tokens: int | None

    def allows(self, reread_tokens: int) -> bool:
        """Whether a request read no more than it may."""
        return self.tokens is None or reread_tokens <= self.tokens


type Limiter = Callable[[Prompt], Limit]


def everything(_: Prompt) -> Limit:
    """Allow all: somebody must read it once."""
    return Limit("all", None)


def question(prompt: Prompt) -> Limit:
    """Allow a speaker whose prompt is known its question."""
    return Limit("question + 12", prompt.question_tokens + TEMPLATE_TOKENS)


def device(prompt: Prompt) -> Limit:
    """Allow a speaker who is new its own section too.

    It reaches from what all devices share to the first word of the question.
    """
    return Limit(
        "device section + question + 12", section_tokens(prompt) + _asked(prompt)
    )


def date(prompt: Prompt) -> Limit:
    """Allow all from the date line on, after midnight."""
    section = prompt.question_start - _end_before(prompt, ("date", "device"))
    return Limit("date + device section + question + 12", section + _asked(prompt))


def follows(name: str, place: int, *, interval: int = 0, template: int = 0) -> Limiter:
    """Allow what follows the token `place`, where `name` begins, and `interval` tokens before it."""
    words = f"what follows the {name}"
    if interval:
        words += f" + {interval}"
    if template:
        words += f" + {template}"

    def limit(prompt: Prompt) -> Limit:
        return Limit(words, len(prompt.token_ids) - place + interval + template)

    return limit


def news(earlier: Prompt, answer_tokens: int) -> Limiter:
    """Allow what the conversation's last prompt, and the answer of so many tokens that was read with it, had not."""

    def limit(prompt: Prompt) -> Limit:
        known = num_common(prompt.token_ids, earlier.token_ids)
        if known == len(earlier.token_ids):
            known += answer_tokens
        new = len(prompt.token_ids) - known
        return Limit("what is new + 12", new + TEMPLATE_TOKENS)

    return limit


def section_tokens(prompt: Prompt) -> int:
    """Count the tokens of a device's own section, up to the first word of the question."""
    return prompt.question_start - _end_before(prompt, ("device",))


def num_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens that two prompts begin with in common."""
    return next(
        (
            index
            for index, (ours, theirs) in enumerate(zip(one, other, strict=False))
            if ours != theirs
        ),
        min(len(one), len(other)),
    )


def _asked(prompt: Prompt) -> int:
    return prompt.question_tokens + TEMPLATE_TOKENS


def _end_before(prompt: Prompt, names: tuple[str, ...]) -> int:
    """Find where the first of the named segments begins."""
    return max(
        segment.end
        for segment in prompt.segments
        if segment.end <= prompt.question_start and segment.name not in names
    )

"""A prompt as lines, and where two of them part; pure."""

from collections.abc import Iterator, Sequence
import json
from typing import NamedTuple

from local_llm_engine.types import ChatRequest

TOOLS = "tools"
INSTRUCTIONS = "instructions"
HOUSE = "house"
# What all devices are told, and what changes with the house alone
SHARED = (TOOLS, INSTRUCTIONS, HOUSE)


class PromptLine(NamedTuple):
    """A line, the segment that it stands in, and at which character of the system text it begins.

    Tools stand before that text: all their lines begin before it, at -1.
    """

    segment: str
    text: str
    position: int


class Difference(NamedTuple):
    """Where two prompts part: the line's number, from 1 on, and what stands there in each; None where one has ended."""

    line: int
    segment: str
    here: str | None
    there: str | None


def lines_of(request: ChatRequest) -> tuple[PromptLine, ...]:
    """Return what a request's prompt says up to its first message, line by line, in the order in which it is read."""
    return tuple(_lines_of(request))


def first_difference(
    here: Sequence[PromptLine], there: Sequence[PromptLine]
) -> Difference | None:
    """Return where two prompts part; None where they say the same."""
    for index in range(max(len(here), len(there))):
        ours = here[index] if index < len(here) else None
        theirs = there[index] if index < len(there) else None
        if ours is None or theirs is None or ours.text != theirs.text:
            known = ours or theirs
            assert known is not None
            return Difference(
                index + 1,
                known.segment,
                ours.text if ours else None,
                theirs.text if theirs else None,
            )
    return None


def _lines_of(request: ChatRequest) -> Iterator[PromptLine]:
    for tool in request.tools:
        for text in f"{tool.name}: {tool.description}".split("\n"):
            yield PromptLine(TOOLS, text, -1)
        schema = json.dumps(tool.parameters, ensure_ascii=False)
        yield PromptLine(TOOLS, f"{tool.name} {schema}", -1)
    position = 0
    for part in request.messages[0].parts:
        # The line break that parts two segments ends the first.
        for text in part.text.removesuffix("\n").split("\n"):
            yield PromptLine(part.segment or "", text, position)
            position += len(text) + 1

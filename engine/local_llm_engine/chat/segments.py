"""Where the messages of a rendered prompt lie, and from that its segments and breakpoints.

Positions are measured by rendering once more with marks in the words: the template itself says where it
put them. Knows nothing of templates; positions in, token counts out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from local_llm_engine.prompts import Segment
from local_llm_engine.types import Message

from .control_text import ControlText, RenderedText
from .tokenizer import EncodedText, common_length

TOOLS = "tools"
HISTORY = "history"
QUESTION = "question"
TOOL_ROUNDS = "tool rounds"
GENERATION_PROMPT = "generation prompt"

# Stands for the words of a blank question while it is measured.
_PLACEHOLDER = "?"


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """Where the words of one message lie, in characters; None where that is not certain."""

    start: int | None
    part_ends: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the words of every message lie; `question` is the index of the last user message."""

    messages: tuple[Message, ...]
    spans: tuple[MessageSpan, ...]
    question: int | None

    @property
    def is_complete(self) -> bool:
        """Whether the place of all words is certain."""
        return all(
            None not in (span.start, *span.part_ends)
            for message, span in zip(self.messages, self.spans, strict=True)
            if message.text.strip()
        )


class Marking:
    """Puts marks into messages, and reads from the rendered text where they came out.

    With `trimmed`, marks stay clear of the whitespace around a message's words, as templates demand that
    strip it.
    """

    def __init__(
        self, messages: Sequence[Message], control_text: ControlText, *, trimmed: bool
    ) -> None:
        """Give every message a mark for its start and one for each part's end."""
        self._messages = tuple(messages)
        self._first_marks = tuple(
            accumulate((1 + len(message.parts) for message in messages), initial=0)
        )
        self.question = last_index(messages, "user")
        self.contents = tuple(
            self._content(index, message, control_text, trimmed=trimmed)
            for index, message in enumerate(messages)
        )

    def read(self, marked: RenderedText, canonical: RenderedText) -> Layout:
        """Find the words of every message in the canonical text.

        Only marks before the first difference between the two texts are certain.
        """
        certain = common_length(marked.text, canonical.text)
        positions = {
            number: position
            for number, position in marked.marks.items()
            if position <= certain
        }
        spans = []
        for index, message in enumerate(self._messages):
            first = self._first_marks[index]
            ends = tuple(
                positions.get(first + 1 + part) for part in range(len(message.parts))
            )
            spans.append(MessageSpan(positions.get(first), ends))
        return Layout(self._messages, tuple(spans), self.question)

    def _content(
        self, index: int, message: Message, control_text: ControlText, *, trimmed: bool
    ) -> str:
        text = message.text
        first = self._first_marks[index]
        if not text.strip():
            # Whether there are words decides what a template writes around them; only a question is worth a stand-in.
            return (
                control_text.guard(_PLACEHOLDER, [(0, first)])
                if index == self.question
                else control_text.guard(text)
            )
        low = len(text) - len(text.lstrip()) if trimmed else 0
        high = len(text.rstrip()) if trimmed else len(text)
        ends = accumulate(len(part.text) for part in message.parts)
        marks = [
            (low, first),
            *(
                (min(max(end, low), high), first + 1 + part)
                for part, end in enumerate(ends)
            ),
        ]
        return control_text.guard(text, marks)


def last_index(messages: Sequence[Message], role: str) -> int | None:
    """Find the last message of this role."""
    return next(
        (
            index
            for index in reversed(range(len(messages)))
            if messages[index].role == role
        ),
        None,
    )


def segments(
    layout: Layout, rendered: RenderedText, encoded: EncodedText, tool_name: str | None
) -> tuple[Segment, ...]:
    """Cut the prompt into named stretches, without gaps.

    Args:
        layout: where the messages' words lie.
        rendered: the prompt's text.
        encoded: its tokens.
        tool_name: the name of one tool, to find where the tools lie; None without tools.
    """
    cuts = [
        *_cuts(layout, rendered.text, tool_name),
        (len(rendered.text), GENERATION_PROMPT),
    ]
    found: list[Segment] = []
    for position, name in cuts:
        end = encoded.tokens_before(position)
        start = found[-1].end if found else 0
        if end <= start:
            continue
        if found and found[-1].name == name:
            found.pop()
        found.append(Segment(name=name, end=end))
    return tuple(found)


def breakpoints(
    layout: Layout, encoded: EncodedText, leaving_tokens: Iterable[int]
) -> tuple[int, ...]:
    """Find the token counts after which a checkpoint is worth taking: ascending, each in 1 .. all tokens.

    Args:
        layout: where the messages' words lie.
        encoded: the prompt's tokens.
        leaving_tokens: token counts at which other prompts of the same conversation leave this one.
    """
    counts = set(leaving_tokens)
    for message, span in zip(layout.messages, layout.spans, strict=True):
        if message.role == "system" or not isinstance(message.content, str):
            counts |= {
                encoded.tokens_before(end) for end in span.part_ends if end is not None
            }
        if message.role == "user" and span.start is not None:
            counts.add(encoded.tokens_before(span.start))
    return tuple(
        sorted(count for count in counts if 1 <= count <= len(encoded.token_ids))
    )


def _cuts(
    layout: Layout, text: str, tool_name: str | None
) -> Iterator[tuple[int, str]]:
    """Yield the ends of the stretches in characters, ascending, each with its name."""
    done = 0
    has_history = any(
        message.role != "system" for message in layout.messages[: layout.question]
    )
    for index, (message, span) in enumerate(
        zip(layout.messages, layout.spans, strict=True)
    ):
        if span.start is not None:
            if tool_name is not None and tool_name in text[done : span.start]:
                yield span.start, TOOLS
                tool_name = None
            elif index == layout.question and has_history:
                yield span.start, HISTORY
            done = span.start
        for part, end in zip(message.parts, span.part_ends, strict=True):
            if end is not None:
                yield (
                    end,
                    part.segment or _default_name(message, index, layout.question),
                )
                done = end
        if message.role != "system":
            # Further on, the name of a tool belongs to a call of it.
            tool_name = None


def _default_name(message: Message, index: int, question: int | None) -> str:
    """Name a part that has no name of its own."""
    if message.role == "system":
        return "system"
    if question is None or index < question:
        return HISTORY
    return QUESTION if index == question else TOOL_ROUNDS

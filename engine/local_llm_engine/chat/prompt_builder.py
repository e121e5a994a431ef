"""Builds a prompt: renders a request, tokenizes it, and finds its segments and breakpoints.

Knows nothing of answers, nor of model files.
"""

from collections.abc import Iterator, Mapping, Sequence
import logging
from typing import Any

from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.prompts import Prompt
from local_llm_engine.types import ChatRequest, Message

from .control_text import RenderedText
from .conversation import (
    merge_system_messages,
    message_entries,
    tool_entries,
    with_text_contents,
)
from .segments import Layout, Marking, breakpoints, segments
from .template import ChatTemplate
from .tokenizer import EncodedText, Tokenizer

_LOGGER = logging.getLogger(__name__)

# Stand for messages that are not known yet: an answer, what was thought for it, the question after it.
_PROBE_ANSWER = {"role": "assistant", "content": "Hello."}
_PROBE_THOUGHT = {"reasoning_content": "Hello.", "thinking": "Hello."}
_PROBE_QUESTION = {"role": "user", "content": "Hello?"}


class PromptBuilder:
    """Turns requests into prompts for one model; safe to use from several threads."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        """Take the two halves that belong to one model."""
        self._template = template
        self._tokenizer = tokenizer
        self._warned = False

    def build(self, request: ChatRequest) -> Prompt:
        """Render and tokenize a request.

        Raises:
            InvalidRequestError: the template refuses the messages, and the error has its words; or the tools or
                the messages are nested too deeply.
        """
        try:
            return self._build(request)
        except RecursionError:
            raise InvalidRequestError(
                "the tools or the messages are nested too deeply"
            ) from None

    def _build(self, request: ChatRequest) -> Prompt:
        messages = merge_system_messages(with_text_contents(request.messages))
        rendering = _Rendering(self._template, self._tokenizer, request, messages)
        canonical = rendering.render(rendering.entries)
        encoded = self._tokenizer.encode(canonical)
        layout = self._layout(messages, rendering, canonical)
        leaving = {
            *self._earlier_leaving_tokens(layout, rendering, canonical, encoded),
            *self._next_leaving_tokens(rendering, canonical, encoded),
        }
        question_start, question_end = _question(layout, encoded)
        return Prompt(
            token_ids=encoded.token_ids,
            segments=segments(
                layout,
                canonical,
                encoded,
                request.tools[0].name if request.tools else None,
            ),
            breakpoints=breakpoints(layout, encoded, leaving),
            question_start=question_start,
            question_end=question_end,
        )

    def _layout(
        self,
        messages: tuple[Message, ...],
        rendering: _Rendering,
        canonical: RenderedText,
    ) -> Layout:
        """Find where the words lie: with marks around all of them, else inside their outer whitespace."""
        for trimmed in (False, True):
            marking = Marking(messages, self._tokenizer.control_text, trimmed=trimmed)
            layout = marking.read(rendering.render_marked(marking.contents), canonical)
            if layout.is_complete:
                return layout
        if not self._warned:
            self._warned = True
            _LOGGER.warning(
                "The chat template changes the words it is given; some breakpoints cannot be placed"
            )
        return layout

    def _earlier_leaving_tokens(
        self,
        layout: Layout,
        rendering: _Rendering,
        canonical: RenderedText,
        encoded: EncodedText,
    ) -> Iterator[int]:
        """Yield where the prompts of earlier answers left what their conversation became.

        An earlier prompt had a checkpoint there; this one, read cold, must stop at the same token. Each
        turn is rendered by itself, so that the work grows with the conversation and not with its square.
        """
        turn = 0
        for index, (message, span) in enumerate(
            zip(layout.messages, layout.spans, strict=True)
        ):
            if message.role == "user":
                turn = index
            elif message.role == "assistant":
                start, earlier = self._earlier_turn(
                    layout, rendering, canonical, turn, index
                )
                if earlier is not None:
                    yield self._tokenizer.common_tokens(
                        canonical, encoded, earlier, start
                    )
                elif span.start is not None:
                    yield encoded.tokens_before(span.start)

    def _earlier_turn(
        self,
        layout: Layout,
        rendering: _Rendering,
        canonical: RenderedText,
        turn: int,
        answer: int,
    ) -> tuple[int, RenderedText | None]:
        """Render the prompt of an earlier answer from its turn on; returns where in this prompt the turn begins too.

        What is before the turn is the same in both. Where the turn cannot be found, all of the earlier prompt
        is rendered; None where the template refuses it.
        """
        span = layout.spans[turn]
        if layout.messages[turn].role == "user" and None not in (
            span.start,
            *span.part_ends,
        ):
            start = canonical.last_control_before(span.start or 0)
            opening = canonical.text[
                start : max(filter(None, span.part_ends), default=start)
            ]
            alone = rendering.render_if_accepted(rendering.entries[turn:answer])
            earlier = alone and alone.from_control(opening)
            if opening and earlier:
                return start, earlier
        return 0, rendering.render_if_accepted(rendering.entries[:answer])

    def _next_leaving_tokens(
        self, rendering: _Rendering, canonical: RenderedText, encoded: EncodedText
    ) -> Iterator[int]:
        """Yield where the next turn will leave this prompt; its end where nothing parts before.

        A template may write an answer in the history otherwise than it began it here.
        """
        for answer in rendering.probe_answers():
            following = rendering.render_if_accepted(
                [*rendering.entries, answer, _PROBE_QUESTION]
            )
            if following is None:
                yield len(encoded.token_ids)
            else:
                yield self._tokenizer.common_tokens(canonical, encoded, following)


class _Rendering:
    """The renderings of one request: the same tools and settings, other messages."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        request: ChatRequest,
        messages: Sequence[Message],
    ) -> None:
        self._template = template
        self._control_text = tokenizer.control_text
        self._tools = tool_entries(request.tools, self._control_text)
        self._thinking = request.thinking
        self.entries = message_entries(messages, self._control_text)

    def render(self, entries: Sequence[Mapping[str, Any]]) -> RenderedText:
        return self._control_text.read(
            self._template.render(entries, self._tools, thinking=self._thinking)
        )

    def render_if_accepted(
        self, entries: Sequence[Mapping[str, Any]]
    ) -> RenderedText | None:
        """Render messages that are not the request's own; None where the template refuses them."""
        try:
            return self.render(entries)
        except InvalidRequestError:
            return None

    def render_marked(self, contents: Sequence[str]) -> RenderedText:
        """Render the request's messages with other contents; nothing where the template refuses them."""
        entries = [
            {**entry, "content": content}
            for entry, content in zip(self.entries, contents, strict=True)
        ]
        return self.render_if_accepted(entries) or RenderedText("", (), {})

    def probe_answers(self) -> Iterator[Mapping[str, Any]]:
        """Yield the forms that an answer can have in the history: what was thought may be kept or not."""
        yield _PROBE_ANSWER
        if self._thinking:
            yield {**_PROBE_ANSWER, **_PROBE_THOUGHT}


def _question(layout: Layout, encoded: EncodedText) -> tuple[int, int]:
    """Find the tokens of the last user message's words; none, at the prompt's end, where there is no such message."""
    if (
        layout.question is None
        or (start := layout.spans[layout.question].start) is None
    ):
        return len(encoded.token_ids), len(encoded.token_ids)
    ends = [end for end in layout.spans[layout.question].part_ends if end is not None]
    first = encoded.tokens_before(start)
    return first, max(first, encoded.tokens_covering(max(ends))) if ends else first

"""From an answer's text and control tokens to deltas: content, thinking and tool calls.

Which form a call is written in is seen from its first character. Where the tokenizer has a token for a
piece of markup, only that token opens anything: the same characters are somebody's words. Knows nothing
of tokens' ids or of templates.
"""

from collections.abc import Callable, Container
from enum import Enum
import re
import secrets

from local_llm_engine.types import (
    ContentDelta,
    Delta,
    InvalidToolCallDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)

from .markup_scanner import (
    THINK,
    THINK_END,
    TOOL_CALL,
    TOOL_CALL_END,
    MarkupScanner,
    PieceKind,
    unfinished_length,
)
from .tool_call_json import is_inside_string, parse_json_calls
from .tool_call_syntax import ParsedCall, Schemas, ToolCallSyntaxError
from .tool_call_xml import parse_xml_calls

_XML_CALL_END = re.compile(r"</(?:function|param)[^<>\n]*>\s*\Z")


class _State(Enum):
    CONTENT = "content"
    THINKING = "thinking"
    CALL = "call"


def _random_call_id() -> str:
    return f"call_{secrets.token_hex(8)}"


class OutputParser:
    """Parses one answer, in pieces of any size; how it is cut never changes the result.

    Typical sequence: feed_text("On it."), feed_control("<tool_call>"), feed_text("<function=..."), ...,
    feed_control("</tool_call>"), finish() -> ContentDelta("On it."), ToolCallDelta(...).
    """

    def __init__(
        self,
        schemas: Schemas,
        *,
        thinking: bool,
        control_texts: Container[str],
        new_call_id: Callable[[], str] = _random_call_id,
    ) -> None:
        """Start an answer.

        Args:
            schemas: of the request's tools; they type the arguments.
            thinking: whether the prompt ends inside a think block.
            control_texts: the markup that the tokenizer has tokens for.
            new_call_id: makes ids that are unique within a conversation.
        """
        self.has_tool_calls = False
        self._schemas = schemas
        self._new_call_id = new_call_id
        self._state = _State.THINKING if thinking else _State.CONTENT
        self._content = _Channel()
        self._thinking = _Channel()
        self._scanner = MarkupScanner(control_texts)
        self._pending = ""
        self._call = ""
        self._checked_call = 0

    @property
    def open_call(self) -> str | None:
        """The text so far of the call that is being written; None where none is."""
        return self._call if self._state is _State.CALL else None

    def feed_text(self, text: str) -> list[Delta]:
        """Add text; returns what is certain now."""
        self._pending += text
        return self._take_pending(final=False)

    def feed_control(self, text: str) -> list[Delta]:
        """Add a control token by its name; one without a meaning here is no content."""
        deltas = self._take_pending(final=True)
        if text == TOOL_CALL:
            deltas += (
                self._end_call(is_closed=False)
                if self._state is _State.CALL and self._call.strip()
                else []
            )
            self._enter(_State.CALL)
        elif self._state is _State.CALL:
            if text == TOOL_CALL_END:
                deltas += self._end_call(is_closed=True)
            else:
                self._call += text
        elif text == THINK:
            self._enter(_State.THINKING)
        elif text == THINK_END:
            self._enter(_State.CONTENT)
        return deltas

    def finish(self) -> list[Delta]:
        """End the answer: a call that is not whole is invalid, whitespace at the end is not spoken."""
        deltas = self._take_pending(final=True)
        return (
            deltas + self._end_call(is_closed=False)
            if self._state is _State.CALL
            else deltas
        )

    def _take_pending(self, *, final: bool) -> list[Delta]:
        """Decide about the pending text as far as possible; with `final`, about all of it."""
        deltas: list[Delta] = []
        progress = True
        while self._pending and progress:
            before = self._pending, self._state
            match self._state:
                case _State.THINKING:
                    deltas += self._take_thinking(final=final)
                case _State.CALL:
                    deltas += self._take_call()
                case _State.CONTENT:
                    deltas += self._take_content(final=final)
            progress = before != (self._pending, self._state)
        return deltas

    def _take_thinking(self, *, final: bool) -> list[Delta]:
        thought, found, after = self._pending.partition(THINK_END)
        kept = 0 if found or final else unfinished_length(thought, THINK_END)
        self._pending = thought[len(thought) - kept :] + after
        words = self._thinking.say(thought[: len(thought) - kept])
        if found:
            self._enter(_State.CONTENT)
        return [ThinkingDelta(words)] if words else []

    def _take_content(self, *, final: bool) -> list[Delta]:
        kind, length = self._scanner.next_piece(self._pending, final=final)
        piece, self._pending = self._pending[:length], self._pending[length:]
        if kind is PieceKind.CALL_START:
            self._enter(_State.CALL)
        elif kind is PieceKind.THINK_START:
            self._enter(_State.THINKING)
        elif kind is PieceKind.WORDS and (words := self._content.say(piece)):
            return [ContentDelta(words)]
        return []

    def _take_call(self) -> list[Delta]:
        """Collect the call's text up to a closing tag that is not part of a value."""
        self._call += self._pending
        self._pending = ""
        while (end := self._call.find(TOOL_CALL_END, self._checked_call)) >= 0:
            if _may_end(self._call[:end]):
                self._call, self._pending = (
                    self._call[:end],
                    self._call[end + len(TOOL_CALL_END) :],
                )
                return self._end_call(is_closed=True)
            self._checked_call = end + 1
        self._checked_call = max(
            self._checked_call, len(self._call) - len(TOOL_CALL_END) + 1
        )
        return []

    def _end_call(self, *, is_closed: bool) -> list[Delta]:
        """Parse the collected call, or the calls in it."""
        body, self._call, self._checked_call = self._call, "", 0
        self._enter(_State.CONTENT)
        self.has_tool_calls = True
        try:
            calls = _parse_calls(body, self._schemas, is_closed=is_closed)
        except ToolCallSyntaxError as err:
            reason = str(err) if is_closed else f"it was cut short ({err})"
            error = f"The tool call is malformed and was not carried out: {reason}. Write the whole call again."
            return [
                InvalidToolCallDelta(id=self._new_call_id(), name=err.name, error=error)
            ]
        return [
            ToolCallDelta(
                ToolCall(
                    id=self._new_call_id(), name=call.name, arguments=call.arguments
                )
            )
            for call in calls
        ]

    def _enter(self, state: _State) -> None:
        """Change what the text is; whitespace around markup belongs to nobody."""
        self._state = state
        self._content.pause()
        self._thinking.pause()
        self._scanner.start_line()


class _Channel:
    """Words without the whitespace around them; whitespace between words comes out with the next word."""

    def __init__(self) -> None:
        self._has_spoken = False
        self._has_paused = True
        self._held = ""

    def say(self, text: str) -> str:
        """Add text; returns what can be spoken now."""
        if self._has_paused:
            text = text.lstrip()
            if not text:
                return ""
            self._has_paused = False
            self._held = "\n" if self._has_spoken else ""
        text = self._held + text
        words = text.rstrip()
        self._held = text[len(words) :]
        self._has_spoken = self._has_spoken or bool(words)
        return words

    def pause(self) -> None:
        """Say that something else came between."""
        self._has_paused = True


def _may_end(call: str) -> bool:
    """Whether </tool_call> after this text closes the call and is not part of a value."""
    beginning = call.lstrip()
    if beginning.startswith("<function="):
        return _XML_CALL_END.search(call) is not None
    return not (beginning.startswith(("{", "[")) and is_inside_string(beginning))


def _parse_calls(body: str, schemas: Schemas, *, is_closed: bool) -> list[ParsedCall]:
    beginning = body.lstrip()
    if beginning.startswith("<"):
        return parse_xml_calls(body, schemas, is_closed=is_closed)
    if beginning.startswith(("{", "[")):
        return parse_json_calls(body)
    raise ToolCallSyntaxError(
        "it is empty"
        if not beginning
        else "it begins with neither <function= nor a JSON object"
    )

"""Turns the engine's deltas into those of Home Assistant's chat log; pure."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import NamedTuple
import unicodedata

from homeassistant.components import conversation
from homeassistant.helpers import llm
from local_llm_engine.types import (
    ContentDelta,
    Delta,
    FinishDelta,
    InvalidToolCallDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)

from .tool_calls.targets import UnclearCallError

# What a tool call is filed under when not even its name could be read
_UNREADABLE_TOOL = "unreadable_tool_call"

# Latin, full-width, Arabic, Armenian and Greek question marks
_QUESTION_MARKS = "?？؟՞;"
# Spaces, controls, closing brackets and quotes, symbols such as emoji, and what modifies these
_CLOSING_CATEGORIES = frozenset(
    {"Zs", "Zl", "Zp", "Cc", "Cf", "Pe", "Pf", "Pi", "So", "Sk", "Mn", "Me"}
)
_CLOSING_CHARACTERS = "\"'*_`~"


class _RefusedCall(NamedTuple):
    """A call that is not carried out: what it is filed under, and what the model is told."""

    id: str
    tool: str
    error: str
    text: str


async def as_chat_log_deltas(
    deltas: AsyncIterable[Delta],
    as_input: Callable[[ToolCall], llm.ToolInput],
    on_finish: Callable[[FinishDelta], None],
) -> AsyncGenerator[
    conversation.AssistantContentDeltaDict | conversation.ToolResultContentDeltaDict
]:
    """Yield the chat log's deltas for one answer of the engine.

    A typical sequence; Home Assistant wants the role first, and starts a tool as soon as it sees it:

        {"role": "assistant"}
        {"content": "One moment. "}
        {"tool_calls": [ToolInput("intent__HassTurnOn", {"name": "Lamp"})]}

    A call that cannot be read, or that `as_input` refuses with an UnclearCallError, is filed as one that was
    handled elsewhere, with its error as result, so that the model sees it and can try again; nothing of
    it is spoken:

        {"tool_calls": [ToolInput("intent__HassTurnOn", {}, external=True)]}
        {"role": "tool_result", "tool_name": "intent__HassTurnOn", "result": ToolResult({"error": ...}, error=True)}
    """
    yield {"role": "assistant"}
    refused: list[_RefusedCall] = []
    async for delta in deltas:
        match delta:
            case ContentDelta(text):
                yield {"content": text}
            case ThinkingDelta(text):
                yield {"thinking_content": text}
            case ToolCallDelta(call):
                try:
                    tool_input = as_input(call)
                except UnclearCallError as err:
                    refused.append(
                        _RefusedCall(call.id, call.name, "UnclearCall", str(err))
                    )
                    tool_input = llm.ToolInput(
                        call.name, dict(call.arguments), id=call.id, external=True
                    )
                yield {"tool_calls": [tool_input]}
            case InvalidToolCallDelta():
                name = delta.name or _UNREADABLE_TOOL
                refused.append(
                    _RefusedCall(delta.id, name, "InvalidToolCall", delta.error)
                )
                yield {
                    "tool_calls": [llm.ToolInput(name, {}, id=delta.id, external=True)]
                }
            case FinishDelta():
                on_finish(delta)
    for call_id, tool, error, text in refused:
        yield {
            "role": "tool_result",
            "tool_call_id": call_id,
            "tool_name": tool,
            "result": llm.ToolResult(
                data={"error": error, "error_text": text}, error=True
            ),
        }


def asks_back(text: str | None) -> bool:
    """Tell whether a spoken answer ends in a question, whatever closes it: quotes, brackets, an emoji."""
    for character in reversed(text or ""):
        if character in _QUESTION_MARKS:
            return True
        if (
            character not in _CLOSING_CHARACTERS
            and unicodedata.category(character) not in _CLOSING_CATEGORIES
        ):
            return False
    return False

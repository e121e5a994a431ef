"""Turns the engine's deltas into those of Home Assistant's chat log; pure."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
import unicodedata

from homeassistant.components import conversation
from homeassistant.helpers import llm
from local_llm_engine.types import (
    ContentDelta,
    Delta,
    FinishDelta,
    InvalidToolCallDelta,
    ThinkingDelta,
    ToolCallDelta,
)

# What a tool call is filed under when not even its name could be read
_UNREADABLE_TOOL = "unreadable_tool_call"

# Latin, full-width, Arabic, Armenian and Greek question marks
_QUESTION_MARKS = "?？؟՞;"
# Spaces, controls, closing brackets and quotes, symbols such as emoji, and what modifies these
_CLOSING_CATEGORIES = frozenset(
    {"Zs", "Zl", "Zp", "Cc", "Cf", "Pe", "Pf", "Pi", "So", "Sk", "Mn", "Me"}
)
_CLOSING_CHARACTERS = "\"'*_`~"


async def as_chat_log_deltas(
    deltas: AsyncIterable[Delta], on_finish: Callable[[FinishDelta], None]
) -> AsyncGenerator[
    conversation.AssistantContentDeltaDict | conversation.ToolResultContentDeltaDict
]:
    """Yield the chat log's deltas for one answer of the engine.

    A typical sequence; Home Assistant wants the role first, and starts a tool as soon as it sees it:

        {"role": "assistant"}
        {"content": "One moment. "}
        {"tool_calls": [ToolInput("intent__HassTurnOn", {"name": "Lamp"})]}

    A call that cannot be read is filed as one that was handled elsewhere, with its error as result,
    so that the model sees it and can try again; nothing of it is spoken:

        {"tool_calls": [ToolInput("intent__HassTurnOn", {}, external=True)]}
        {"role": "tool_result", "tool_name": "intent__HassTurnOn", "result": ToolResult({"error": ...}, error=True)}
    """
    yield {"role": "assistant"}
    unreadable: list[InvalidToolCallDelta] = []
    async for delta in deltas:
        match delta:
            case ContentDelta(text):
                yield {"content": text}
            case ThinkingDelta(text):
                yield {"thinking_content": text}
            case ToolCallDelta(call):
                yield {
                    "tool_calls": [
                        llm.ToolInput(call.name, dict(call.arguments), id=call.id)
                    ]
                }
            case InvalidToolCallDelta():
                unreadable.append(delta)
                yield {
                    "tool_calls": [
                        llm.ToolInput(_tool_name(delta), {}, id=delta.id, external=True)
                    ]
                }
            case FinishDelta():
                on_finish(delta)
    for delta in unreadable:
        yield {
            "role": "tool_result",
            "tool_call_id": delta.id,
            "tool_name": _tool_name(delta),
            "result": llm.ToolResult(
                data={"error": "InvalidToolCall", "error_text": delta.error}, error=True
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


def _tool_name(delta: InvalidToolCallDelta) -> str:
    return delta.name or _UNREADABLE_TOOL

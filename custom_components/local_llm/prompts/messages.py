"""Turns Home Assistant's chat log into the engine's messages; pure."""

from collections.abc import Mapping, Sequence
import json
import re
from typing import Any

from homeassistant.components import assist_satellite, conversation
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import llm
from local_llm_engine.types import Message, TextPart, ToolCall

from ..const import DOMAIN

# A line of Home Assistant's live context, as JSON has it
_BRIGHTNESS = re.compile(r" *brightness: '?\d+'?\\n")


def as_messages(
    system: Sequence[TextPart],
    content: Sequence[conversation.Content],
    history_turns: int,
    agent_id: str | None = None,
) -> tuple[Message, ...]:
    """Return the messages of a request: the system text, the last turns of the history and the turn that runs now.

    With `agent_id`, the turns that other agents answered are none of the history.

    Raises:
        HomeAssistantError: a message has an attachment.
    """
    spoken: Sequence[conversation.Content] = [
        item for item in content if item.role != "system"
    ]
    if agent_id is not None:
        spoken = own_turns(spoken, agent_id)
    return (
        Message(role="system", content=tuple(system)),
        *(_as_message(item) for item in recent_turns(spoken, history_turns)),
    )


def recent_turns(
    content: Sequence[conversation.Content], history_turns: int
) -> Sequence[conversation.Content]:
    """Drop the oldest turns so that at most `history_turns` stand before the current one.

    A turn is a user's message and all that follows up to the next. Turns are dropped by half the
    limit at a time: dropping one with every question would move the start of the history each time,
    and all of it would be read again each time.
    """
    starts = [index for index, item in enumerate(content) if item.role == "user"]
    surplus = len(starts) - 1 - history_turns
    if surplus <= 0:
        return content
    step = history_turns // 2 + 1
    num_dropped = min(-(-surplus // step) * step, len(starts) - 1)
    return content[starts[num_dropped] :]


def own_turns(
    content: Sequence[conversation.Content], agent_id: str
) -> list[conversation.Content]:
    """Leave out the turns that another agent answered; what Home Assistant answered itself stays.

    Home Assistant keeps one conversation for each satellite, also where its wake words call different
    assistants. What was said to one of them is not meant for the other.
    """
    turns: list[list[conversation.Content]] = [[]]
    for item in content:
        if item.role == "user":
            turns.append([])
        turns[-1].append(item)
    return [
        item
        for turn in turns
        if not any(_is_anothers(item, agent_id) for item in turn)
        for item in turn
    ]


def _is_anothers(item: conversation.Content, agent_id: str) -> bool:
    # A satellite speaks for itself where it begins a conversation.
    return (
        isinstance(item, conversation.AssistantContent)
        and item.agent_id not in (agent_id, conversation.HOME_ASSISTANT_AGENT)
        and not item.agent_id.startswith(f"{assist_satellite.DOMAIN}.")
    )


def _as_message(content: conversation.Content) -> Message:
    match content:
        case conversation.UserContent():
            if content.attachments:
                raise HomeAssistantError(
                    translation_domain=DOMAIN, translation_key="attachments_unsupported"
                )
            return Message(role="user", content=content.content)
        case conversation.AssistantContent():
            return Message(
                role="assistant",
                content=content.content or "",
                thinking=content.thinking_content,
                tool_calls=tuple(
                    ToolCall(id=call.id, name=call.tool_name, arguments=call.tool_args)
                    for call in content.tool_calls or ()
                ),
            )
    assert isinstance(content, conversation.ToolResultContent)
    return Message(
        role="tool",
        content=_in_percent(_result_text(content.result)),
        tool_call_id=content.tool_call_id,
    )


def _result_text(result: llm.ToolResult) -> str:
    """Return a tool's result as JSON; one that failed says so in its own data."""
    data: Mapping[str, Any] = result.data
    if isinstance(data, llm.IntentResponseDict):
        data = _intent_result(data)
    elif result.error and "error" not in data:
        data = {"error": True, **data}
    return json.dumps(data, ensure_ascii=False, default=str)


def _intent_result(data: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten an intent's response to the names of what was changed, without types and ids.

    The original is several times as long, and all that follows a question is read cold.
    """
    targets = {
        key: [target["name"] for target in value]
        for key, value in data["data"].items()
        if key in ("success", "failed")
    }
    return {**data, "data": {**data["data"], **targets}}


def _in_percent(text: str) -> str:
    """Leave out the brightness from 0 to 255 where it stands in percent too, which is what tools take."""
    return _BRIGHTNESS.sub("", text) if "brightness_pct" in text else text

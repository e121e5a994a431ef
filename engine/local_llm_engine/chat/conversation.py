"""Brings a request into the plain form that chat templates read: Hugging Face's messages and tools.

Knows nothing of the template itself, nor of tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
import json
from typing import Any

from local_llm_engine.types import Message, TextPart, ToolCall, ToolSpec

from .control_text import ControlText


def with_text_contents(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Write contents that are still data, as a tool may return it, as JSON: a template would drop them."""
    return tuple(
        replace(
            message,
            content=json.dumps(message.content, ensure_ascii=False, default=str),
        )
        if _is_data(message.role, message.content)
        else message
        for message in messages
    )


def merge_system_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Join all system messages into the first message, a blank line between them.

    Templates know one system message, at the very beginning, and fail on any other.
    """
    system = [message for message in messages if message.role == "system"]
    if not system or (len(system) == 1 and messages[0] is system[0]):
        return tuple(messages)
    parts: list[TextPart] = []
    for message in system:
        if not message.text.strip():
            continue
        first, *rest = message.parts
        parts += [replace(first, text=f"\n\n{first.text}") if parts else first, *rest]
    others = [message for message in messages if message.role != "system"]
    return (Message(role="system", content=parts), *others)


def message_entries(
    messages: Sequence[Message], control_text: ControlText
) -> list[dict[str, Any]]:
    """Write messages as a template reads them, everybody's words guarded."""
    tool_names: dict[str, str] = {}
    entries = []
    for message in messages:
        tool_names |= {call.id: call.name for call in message.tool_calls}
        entries.append(_message_entry(message, tool_names, control_text))
    return entries


def tool_entries(
    tools: Sequence[ToolSpec], control_text: ControlText
) -> list[dict[str, Any]]:
    """Write tools as a template reads them, OpenAI-style, everybody's words guarded."""
    return [
        {
            "type": "function",
            "function": {
                "name": control_text.guard(tool.name),
                "description": control_text.guard(tool.description),
                "parameters": control_text.guard_data(tool.parameters),
            },
        }
        for tool in tools
    ]


def _is_data(role: str, content: object) -> bool:
    if content is None or isinstance(content, str):
        return False
    if not isinstance(content, Sequence) or not all(
        isinstance(part, TextPart) for part in content
    ):
        return True
    return role == "tool" and not content


def _message_entry(
    message: Message, tool_names: Mapping[str, str], control_text: ControlText
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "role": message.role,
        "content": control_text.guard(message.text),
    }
    if message.thinking is not None:
        # The name that most templates read, and the one that the others do.
        entry["reasoning_content"] = entry["thinking"] = control_text.guard(
            message.thinking
        )
    if message.tool_calls:
        entry["tool_calls"] = [
            _tool_call_entry(call, control_text) for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        entry["tool_call_id"] = control_text.guard(message.tool_call_id)
        if message.tool_call_id in tool_names:
            entry["name"] = control_text.guard(tool_names[message.tool_call_id])
    return entry


def _tool_call_entry(call: ToolCall, control_text: ControlText) -> dict[str, Any]:
    return {
        "type": "function",
        "id": control_text.guard(call.id),
        "function": {
            "name": control_text.guard(call.name),
            "arguments": control_text.guard_data(_arguments(call.arguments)),
        },
    }


def _arguments(arguments: object) -> Mapping[str, Any]:
    """Read arguments that were kept as JSON text: templates need an object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError, RecursionError:
            return {}
    return arguments if isinstance(arguments, Mapping) else {}

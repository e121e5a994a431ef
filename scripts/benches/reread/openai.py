"""Requests in the form of OpenAI's chat completions, which the peer takes; pure."""

from dataclasses import dataclass
import json
from typing import Any

from local_llm_engine.types import ChatRequest, Message, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """The messages and the tools of one chat completion, as JSON has them."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]

    def body(self) -> dict[str, Any]:
        """Return what is posted: one token, the likeliest, and no thinking."""
        body: dict[str, Any] = {
            "messages": self.messages,
            "max_tokens": 1,
            "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        if self.tools:
            body["tools"] = self.tools
        return body


def peer_request(request: ChatRequest) -> PeerRequest:
    """Put one of our own requests as it stands."""
    return PeerRequest(
        messages=tuple(map(peer_message, request.messages)),
        tools=tuple(map(as_tool, request.tools)),
    )


def peer_message(message: Message) -> dict[str, Any]:
    """Put one message."""
    put: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        put["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments),
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        put["tool_call_id"] = message.tool_call_id
    return put


def as_tool(spec: ToolSpec) -> dict[str, Any]:
    """Put one tool."""
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
        },
    }

"""From the engine's deltas to the chat log's."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from custom_components.local_llm.stream import as_chat_log_deltas, asks_back
from custom_components.local_llm.tool_calls.targets import UnclearCallError
from homeassistant.helpers import llm
from local_llm_engine.types import (
    ContentDelta,
    Delta,
    FinishDelta,
    FinishReason,
    InvalidToolCallDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)

from .scripted import USAGE

FINISH = FinishDelta(FinishReason.STOP, USAGE)


async def transformed(*deltas: Delta) -> tuple[list[dict[str, Any]], list[FinishDelta]]:
    async def stream() -> AsyncGenerator[Delta]:
        for delta in deltas:
            yield delta

    finishes: list[FinishDelta] = []
    got = [
        dict(delta)
        async for delta in as_chat_log_deltas(stream(), as_input, finishes.append)
    ]
    return got, finishes


def as_input(call: ToolCall) -> llm.ToolInput:
    """Refuse what is called after nobody, and file the others under a name of their own."""
    if call.name == "nobody":
        raise UnclearCallError("There is no such tool.")
    return llm.ToolInput(f"light__{call.name}", dict(call.arguments), id=call.id)


async def test_text_and_thoughts() -> None:
    got, finishes = await transformed(
        ThinkingDelta("Hm."), ContentDelta("Hel"), ContentDelta("lo"), FINISH
    )
    assert got == [
        {"role": "assistant"},
        {"thinking_content": "Hm."},
        {"content": "Hel"},
        {"content": "lo"},
    ]
    assert finishes == [FINISH]


async def test_the_role_comes_first_even_before_a_call() -> None:
    call = ToolCall(id="1", name="On", arguments={"name": "Lamp"})
    got, _ = await transformed(ToolCallDelta(call), FINISH)
    assert got == [
        {"role": "assistant"},
        {"tool_calls": [llm.ToolInput("light__On", {"name": "Lamp"}, id="1")]},
    ]


@pytest.mark.parametrize(
    ("name", "filed"),
    [("light__On", "light__On"), (None, "unreadable_tool_call")],
    ids=["named", "nameless"],
)
async def test_an_unreadable_call_is_answered_for_the_model_alone(
    name: str | None, filed: str
) -> None:
    call = ToolCall(id="2", name="Off", arguments={})
    garbled: Sequence[Delta] = [
        InvalidToolCallDelta(id="1", name=name, error="no closing tag"),
        ToolCallDelta(call),
        FINISH,
    ]
    got, _ = await transformed(*garbled)
    assert got == [
        {"role": "assistant"},
        {"tool_calls": [llm.ToolInput(filed, {}, id="1", external=True)]},
        {"tool_calls": [llm.ToolInput("light__Off", {}, id="2")]},
        {
            "role": "tool_result",
            "tool_call_id": "1",
            "tool_name": filed,
            "result": llm.ToolResult(
                {"error": "InvalidToolCall", "error_text": "no closing tag"}, error=True
            ),
        },
    ]


async def test_a_refused_call_is_shown_to_the_model_as_it_was_written() -> None:
    call = ToolCall(id="1", name="nobody", arguments={"name": "Lamp"})
    got, _ = await transformed(ToolCallDelta(call), FINISH)
    assert got == [
        {"role": "assistant"},
        {
            "tool_calls": [
                llm.ToolInput("nobody", {"name": "Lamp"}, id="1", external=True)
            ]
        },
        {
            "role": "tool_result",
            "tool_call_id": "1",
            "tool_name": "nobody",
            "result": llm.ToolResult(
                {"error": "UnclearCall", "error_text": "There is no such tool."},
                error=True,
            ),
        },
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which lamp?", True),
        ("どの部屋ですか？", True),
        ("ποιο φως;", True),
        ("(Or the kitchen?)", True),
        ("**Which?** ", True),
        ("«Laquelle ?»", True),
        ("Which? 🛋️", True),
        ("Why? Because.", False),
        ("", False),
        (None, False),
    ],
)
def test_asks_back(text: str | None, expected: bool) -> None:
    assert asks_back(text) is expected

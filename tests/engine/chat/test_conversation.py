"""Messages and tools take the form that templates read."""

from datetime import time
from enum import StrEnum
from typing import Any

import pytest

from local_llm_engine.chat.control_text import ControlText, ControlToken
from local_llm_engine.chat.conversation import (
    merge_system_messages,
    message_entries,
    tool_entries,
    with_text_contents,
)
from local_llm_engine.types import Message, TextPart, ToolCall, ToolSpec

from .conversations import assistant, calling, result, user

PLAIN = ControlText([ControlToken(id=1, text="<|im_end|>")])


def system(*texts: str) -> Message:
    return Message(role="system", content=[TextPart(text=text) for text in texts])


def texts(message: Message) -> list[str]:
    return [part.text for part in message.parts]


def arguments_shown(arguments: Any) -> Any:
    call = ToolCall(id="c1", name="A", arguments=arguments)
    (entry,) = message_entries([Message(role="assistant", tool_calls=[call])], PLAIN)
    return entry["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"state": "on", "name": "Büro"}, '{"state": "on", "name": "Büro"}'),
        ([{"state": "on"}, None], '[{"state": "on"}, null]'),
        ({}, "{}"),
        ([], "[]"),
        ({"at": time(7, 30)}, '{"at": "07:30:00"}'),
        (21.5, "21.5"),
        (False, "false"),
        ("on", "on"),
        ([TextPart(text="on")], "on"),
        (None, ""),
    ],
    ids=[
        "object",
        "array",
        "empty object",
        "empty array",
        "time",
        "number",
        "boolean",
        "text",
        "parts",
        "none",
    ],
)
def test_a_tool_s_result_is_visible(content: Any, expected: str) -> None:
    (message,) = with_text_contents([Message(role="tool", content=content)])
    assert message.text == expected


def test_no_parts_are_no_words() -> None:
    (message,) = with_text_contents([Message(role="assistant", content=[])])
    assert message.text == ""


def test_one_system_message_at_the_front_stays() -> None:
    messages = (system("a", "b"), user("Hi"))
    assert merge_system_messages(messages) == messages


def test_no_system_message_stays_so() -> None:
    assert merge_system_messages([user("Hi")]) == (user("Hi"),)


@pytest.mark.parametrize(
    "messages",
    [
        [system("a", "b"), system("c"), user("Hi")],
        [system("a", "b"), user("Hi"), system("c")],
        [user("Hi"), system("a", "b"), system(" "), system("c")],
    ],
    ids=["leading", "late", "blank between"],
)
def test_system_messages_become_one(messages: list[Message]) -> None:
    first, second = merge_system_messages(messages)
    assert texts(first) == ["a", "b", "\n\nc"]
    assert second == user("Hi")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "Fan"}, {"name": "Fan"}),
        ('{"name": "Fan"}', {"name": "Fan"}),
        ("[]", {}),
        ("", {}),
        ("{", {}),
        ("[" * 100_000, {}),
        (None, {}),
        ([1], {}),
    ],
    ids=[
        "mapping",
        "text",
        "text of an array",
        "no text",
        "broken",
        "deep",
        "none",
        "array",
    ],
)
def test_arguments_are_an_object(arguments: Any, expected: dict[str, Any]) -> None:
    assert arguments_shown(arguments) == expected


class Domain(StrEnum):
    """A text with a class of its own."""

    LIGHT = "light"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (time(7, 30), "07:30:00"),
        (Domain.LIGHT, "light"),
        ((1, 2.5, None, True), [1, 2.5, None, True]),
        ({"a": {"b": (time(7, 30),)}}, {"a": {"b": ["07:30:00"]}}),
        ({7: "x"}, {"7": "x"}),
        ({"on"}, ["on"]),
        (b"x", "b'x'"),
    ],
    ids=["time", "enum", "tuple", "nested", "key", "set", "bytes"],
)
def test_arguments_are_plain_data(value: object, expected: object) -> None:
    shown = arguments_shown({"value": value})["value"]
    assert shown == expected
    assert type(shown) is type(expected)


def test_absent_fields_are_left_out() -> None:
    (entry,) = message_entries([assistant(None)], PLAIN)
    assert entry == {"role": "assistant", "content": ""}


def test_thinking_has_the_names_that_templates_read() -> None:
    (entry,) = message_entries([assistant("Hi", thinking="hm")], PLAIN)
    assert entry["reasoning_content"] == entry["thinking"] == "hm"


def test_a_result_names_its_tool() -> None:
    entries = message_entries(
        [calling("c1", "HassTurnOn"), result("c1", "ok"), result("c2", "ok")], PLAIN
    )
    assert entries[1]["name"] == "HassTurnOn"
    assert entries[1]["tool_call_id"] == "c1"
    assert "name" not in entries[2]


def test_a_tool_s_schema_keeps_its_order() -> None:
    parameters = {"type": "object", "required": ["b"], "properties": {"b": {}, "a": {}}}
    (entry,) = tool_entries(
        [ToolSpec(name="A", description="d", parameters=parameters)], PLAIN
    )
    assert entry["type"] == "function"
    assert list(entry["function"]) == ["name", "description", "parameters"]
    assert list(entry["function"]["parameters"]) == list(parameters)


def test_text_that_no_tokenizer_can_read_is_replaced() -> None:
    (entry,) = message_entries([user("a\ud800\udfffb")], PLAIN)
    assert entry["content"] == "a\ufffd\ufffdb"

"""From the chat log to the engine's messages."""

from datetime import time
import json
from pathlib import Path

import pytest

from custom_components.local_llm.prompts.messages import (
    as_messages,
    own_turns,
    recent_turns,
)
from homeassistant.components import conversation
from homeassistant.components.conversation import (
    AssistantContent,
    ToolResultContent,
    UserContent,
)
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import intent, llm
from local_llm_engine.types import TextPart, ToolCall

SYSTEM = (TextPart(text="Rules", segment="instructions"),)


def tool_result(data: dict, *, error: bool = False) -> str:
    content = ToolResultContent(
        agent_id="a",
        tool_call_id="1",
        tool_name="t",
        result=llm.ToolResult(data=data, error=error),
    )
    message = as_messages(SYSTEM, [content], 0)[-1]
    assert (message.role, message.tool_call_id) == ("tool", "1")
    return message.text


def test_system_text_keeps_its_parts() -> None:
    (message,) = as_messages(SYSTEM, [conversation.SystemContent("Rules")], 5)
    assert message.role == "system"
    assert message.parts == SYSTEM


def test_an_answer_with_thoughts_and_calls() -> None:
    content = AssistantContent(
        agent_id="a",
        content="One moment.",
        thinking_content="Which lamp?",
        tool_calls=[llm.ToolInput("light__On", {"name": "Lamp"}, id="7")],
    )
    message = as_messages(SYSTEM, [content], 0)[-1]
    assert message.role == "assistant"
    assert (message.text, message.thinking) == ("One moment.", "Which lamp?")
    assert message.tool_calls == (
        ToolCall(id="7", name="light__On", arguments={"name": "Lamp"}),
    )


def test_an_answer_of_calls_alone_has_empty_text() -> None:
    content = AssistantContent(agent_id="a", tool_calls=[llm.ToolInput("x__Y", {})])
    assert as_messages(SYSTEM, [content], 0)[-1].content == ""


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (
            {"time": time(14, 5), "name": "Büro"},
            False,
            '{"time": "14:05:00", "name": "Büro"}',
        ),
        ({"reason": "late"}, True, '{"error": true, "reason": "late"}'),
        ({"error": "NoSuchArea"}, True, '{"error": "NoSuchArea"}'),
    ],
    ids=["time and umlaut", "error", "told error"],
)
def test_tool_results_are_json(data: dict, error: bool, text: str) -> None:
    assert tool_result(data, error=error) == text


def test_an_intents_result_names_what_was_changed() -> None:
    response = intent.IntentResponse(language="en")
    kinds = intent.IntentResponseTargetType
    response.async_set_results(
        [intent.IntentResponseTarget("Lamp", kinds.ENTITY, "light.lamp")],
        [intent.IntentResponseTarget("Vase", kinds.ENTITY, "light.vase")],
    )
    assert tool_result(llm.IntentResponseDict(response)) == (
        '{"speech": {}, "response_type": "action_done", "data": {"success": ["Lamp"], "failed": ["Vase"]}}'
    )


def test_an_intents_error_keeps_its_code() -> None:
    response = intent.IntentResponse(language="en")
    response.async_set_error(
        intent.IntentResponseErrorCode.NO_VALID_TARGETS, "No such lamp"
    )
    assert '"data": {"code": "no_valid_targets"}' in tool_result(
        llm.IntentResponseDict(response)
    )


def test_attachments_are_refused() -> None:
    attachment = conversation.Attachment("media", "image/png", Path("cat.png"))
    with pytest.raises(HomeAssistantError) as raised:
        as_messages(SYSTEM, [UserContent("What is this?", [attachment])], 0)
    assert raised.value.translation_key == "attachments_unsupported"


def turns(number: int) -> list[conversation.Content]:
    """A chat log of so many questions; every second one took a tool."""
    content: list[conversation.Content] = []
    for turn in range(number):
        content.append(UserContent(f"question {turn}"))
        if turn % 2:
            content.append(
                AssistantContent("a", tool_calls=[llm.ToolInput("t__T", {}, id="1")])
            )
            content.append(ToolResultContent("a", "1", "t__T", llm.ToolResult({})))
        content.append(AssistantContent("a", f"answer {turn}"))
    return content[:-1]


def questions(content: list[conversation.Content]) -> list[int]:
    return [int(item.content.split()[1]) for item in content if item.role == "user"]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10])
def test_history_is_cut_in_whole_turns(limit: int) -> None:
    for number in range(1, 30):
        sent = recent_turns(turns(number), limit)
        assert sent[0].role == "user"
        assert 1 <= len(questions(sent)) <= limit + 1
        assert questions(sent)[-1] == number - 1


def test_history_keeps_its_start_for_several_turns() -> None:
    starts = [questions(recent_turns(turns(number), 10))[0] for number in range(1, 30)]
    assert starts == sorted(starts)
    # The first question that is sent changes a few times in 30 turns, not with each.
    assert sorted(set(starts)) == [0, 6, 12, 18]


def test_an_announcement_before_the_first_question_belongs_to_it() -> None:
    content = [AssistantContent("a", "The door is open."), *turns(2)]
    assert recent_turns(content, 5) == content
    assert questions(recent_turns(content, 0)) == [1]


def test_turns_of_another_agent_are_left_out_whole() -> None:
    ours, theirs = "conversation.ours", "conversation.theirs"
    kept = [
        AssistantContent("assist_satellite.kitchen", "The door is open."),
        UserContent("close it"),
        AssistantContent(ours, "Done."),
        UserContent("what time is it"),
        AssistantContent(conversation.HOME_ASSISTANT_AGENT, "14:05"),
    ]
    others = [
        UserContent("ahoy"),
        AssistantContent(theirs, tool_calls=[llm.ToolInput("t__T", {}, id="1")]),
        ToolResultContent(theirs, "1", "t__T", llm.ToolResult({})),
    ]
    content = [*kept[:3], *others, *kept[3:], *others, UserContent("and now")]
    assert own_turns(content, ours) == [*kept, UserContent("and now")]
    assert own_turns(others[:1], ours) == others[:1]


def test_brightness_stands_in_percent_alone() -> None:
    text = (
        "names: Lamp\n  attributes:\n    brightness: '90'\n    brightness_pct: '35'\n"
    )
    assert json.loads(tool_result({"result": text}))["result"] == (
        "names: Lamp\n  attributes:\n    brightness_pct: '35'\n"
    )
    alone = "names: Lamp\n  attributes:\n    brightness: '90'\n"
    assert json.loads(tool_result({"result": alone}))["result"] == alone

"""A request becomes exactly the reference library's tokens, with breakpoints where its conversation will need them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
import json
from pathlib import Path
from typing import Any, override

import pytest

from local_llm_engine.chat.prompt_builder import PromptBuilder
from local_llm_engine.chat.template import ChatTemplate
from local_llm_engine.chat.tokenizer import Tokenizer
from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.prompts import Prompt
from local_llm_engine.types import ChatRequest, Message, ToolCall, ToolSpec

from .conversations import (
    CONVERSATIONS,
    FIRST_TURN,
    SECOND_ROUND,
    SECOND_TURN,
    SYSTEM,
    THIRD_TURN,
    TOOL_ROUND,
    TOOLS,
    assistant,
    calling,
    chat,
    result,
    user,
)
from .prompts import (
    Formats,
    Oracles,
    common,
    every_conversation,
    every_folder,
    stretches,
    text_of,
    thinking_on_and_off,
    words_of,
)


@every_folder
@every_conversation
@thinking_on_and_off
def test_tokens_equal_the_reference(
    formats: Formats, oracles: Oracles, name: str, request_name: str, thinking: bool
) -> None:
    conversation = CONVERSATIONS[request_name]
    request = chat(*conversation.messages, thinking=thinking)
    expected = oracles[name].token_ids(oracles[name].text(request))
    assert formats[name].prepare(request).token_ids == expected


@every_folder
@every_conversation
@thinking_on_and_off
def test_shape_of_a_prompt(
    formats: Formats, oracles: Oracles, name: str, request_name: str, thinking: bool
) -> None:
    request = chat(*CONVERSATIONS[request_name].messages, thinking=thinking)
    prompt = formats[name].prepare(request)
    ends = [segment.end for segment in prompt.segments]
    assert ends == sorted(set(ends))
    assert ends[-1] == len(prompt.token_ids)
    assert list(prompt.breakpoints) == sorted(set(prompt.breakpoints))
    assert prompt.breakpoints[0] >= 1
    assert prompt.breakpoints[-1] <= len(prompt.token_ids)
    assert prompt.question_start in prompt.breakpoints
    question = next(
        message for message in reversed(request.messages) if message.role == "user"
    )
    assert words_of(oracles[name], prompt) == question.text
    assert prompt.segments[-1].name == "generation prompt"
    assert stretches(oracles[name], prompt)["generation prompt"].startswith(
        ("<|im_end|>", "\n</tool_response>")
    )


@every_folder
@pytest.mark.parametrize(
    ("thinking", "thought"),
    [(False, None), (True, None), (True, "Simple.")],
    ids=["quick", "thought is dropped", "thought is kept"],
)
@pytest.mark.parametrize(
    "request_name",
    ["first turn", "tool round", "second round", "second turn", "asked back"],
)
def test_the_next_turn_leaves_at_a_breakpoint(
    formats: Formats,
    name: str,
    request_name: str,
    thinking: bool,
    thought: str | None,
) -> None:
    """Nothing of this prompt that the next turn shares is read again."""
    request = chat(*CONVERSATIONS[request_name].messages, thinking=thinking)
    following = chat(
        *request.messages,
        assistant("It is on.", thinking=thought),
        user("And now off"),
        thinking=thinking,
    )
    prompt, next_prompt = (
        formats[name].prepare(request),
        formats[name].prepare(following),
    )
    left = common(prompt.token_ids, next_prompt.token_ids)
    assert left in prompt.breakpoints
    assert left in next_prompt.breakpoints


@every_folder
@thinking_on_and_off
def test_a_tool_round_leaves_at_a_breakpoint(
    formats: Formats, name: str, thinking: bool
) -> None:
    request = chat(*FIRST_TURN.messages, thinking=thinking)
    following = chat(*TOOL_ROUND.messages, thinking=thinking)
    prompt, next_prompt = (
        formats[name].prepare(request),
        formats[name].prepare(following),
    )
    left = common(prompt.token_ids, next_prompt.token_ids)
    assert left in next_prompt.breakpoints
    assert (
        max(stop for stop in prompt.breakpoints if stop <= left)
        in next_prompt.breakpoints
    )


@pytest.mark.parametrize(
    ("name", "thinking", "distance"),
    [
        ("nano", False, 0),
        ("hermes", False, 0),
        ("qwen", False, 4),
        ("qwen", True, 2),
        ("keeps thinking", True, 0),
    ],
)
def test_distance_of_the_leaving_token(
    formats: Formats, name: str, thinking: bool, distance: int
) -> None:
    """It is the template's doing: a think block of four tokens, an opened one of two, nothing."""
    prompt = formats[name].prepare(chat(*FIRST_TURN.messages, thinking=thinking))
    assert len(prompt.token_ids) - prompt.breakpoints[-1] == distance


@every_folder
@thinking_on_and_off
def test_breakpoints_of_a_conversation_stay(
    formats: Formats, name: str, thinking: bool
) -> None:
    """A later prompt, read cold, stops wherever an earlier one did, as far as they agree."""
    earlier = [
        chat(*r.messages, thinking=thinking)
        for r in (FIRST_TURN, TOOL_ROUND, SECOND_ROUND, SECOND_TURN)
    ]
    last = formats[name].prepare(chat(*THIRD_TURN.messages, thinking=thinking))
    for request in earlier:
        prompt = formats[name].prepare(request)
        agreed = common(prompt.token_ids, last.token_ids)
        assert {stop for stop in prompt.breakpoints if stop <= agreed} <= set(
            last.breakpoints
        )


def test_the_words_of_an_earlier_turn_are_kept(formats: Formats) -> None:
    """With thinking off the think block stands in the generation prompt only, and the next turn parts there."""
    prompt = formats["qwen"].prepare(FIRST_TURN)
    following = formats["qwen"].prepare(
        chat(*FIRST_TURN.messages, assistant("On."), user("Off again"))
    )
    left = common(prompt.token_ids, following.token_ids)
    assert left < len(prompt.token_ids)
    assert prompt.question_end < max(
        stop for stop in prompt.breakpoints if stop <= left
    )


@pytest.mark.parametrize("name", ["nano", "qwen"])
def test_system_messages_are_merged_into_the_first(formats: Formats, name: str) -> None:
    late = Message(role="system", content="Be brief.")
    merged = chat(
        Message(role="system", content=f"{SYSTEM.text}\n\nBe brief."),
        user("Hi"),
        assistant("Hello."),
        user("On"),
    )
    scattered = chat(SYSTEM, user("Hi"), assistant("Hello."), late, user("On"))
    assert (
        formats[name].prepare(scattered).token_ids
        == formats[name].prepare(merged).token_ids
    )


@pytest.mark.parametrize("name", ["nano", "qwen"])
def test_a_late_system_message_comes_first(formats: Formats, name: str) -> None:
    late = Message(role="system", content="Be brief.")
    found = formats[name].prepare(
        chat(user("Hi"), assistant("Hello."), late, user("On"))
    )
    expected = formats[name].prepare(
        chat(late, user("Hi"), assistant("Hello."), user("On"))
    )
    assert found.token_ids == expected.token_ids


@pytest.mark.parametrize("name", ["nano", "qwen"])
def test_no_content_is_no_word(formats: Formats, oracles: Oracles, name: str) -> None:
    messages = [SYSTEM, user("On"), result("c1", "ok"), user("Off")]
    without = chat(*messages[:2], calling("c1", "HassTurnOn", None), *messages[2:])
    empty = chat(*messages[:2], calling("c1", "HassTurnOn", ""), *messages[2:])
    prompt = formats[name].prepare(without)
    assert prompt.token_ids == formats[name].prepare(empty).token_ids
    assert "None" not in text_of(oracles[name], prompt.token_ids)


def test_no_tools_are_an_empty_list_of_tools(
    formats: Formats, oracles: Oracles
) -> None:
    request = ChatRequest(messages=FIRST_TURN.messages, tools=[])
    assert formats["qwen"].prepare(request).token_ids == oracles["qwen"].token_ids(
        oracles["qwen"].text(request)
    )


def test_a_template_that_refuses_says_why(formats: Formats) -> None:
    with pytest.raises(InvalidRequestError, match="No user query found in messages"):
        formats["qwen"].prepare(chat(SYSTEM))


def test_a_conversation_that_ends_with_an_answer(
    formats: Formats, oracles: Oracles
) -> None:
    request = chat(SYSTEM, user("Hi"), assistant("Hello."))
    prompt = formats["qwen"].prepare(request)
    assert prompt.token_ids == oracles["qwen"].token_ids(oracles["qwen"].text(request))
    assert words_of(oracles["qwen"], prompt) == "Hi"


def test_tools_with_any_values(formats: Formats, oracles: Oracles) -> None:
    tool = ToolSpec(
        name="GetWeather",
        description="Wetter — 'jetzt' & \"bald\" <b>",
        parameters={"z": [1, 2.5, None, True], "a": {"Büro": "ß"}, "type": "object"},
    )
    request = chat(SYSTEM, user("Hi"), tools=(tool, *TOOLS))
    assert formats["qwen"].prepare(request).token_ids == oracles["qwen"].token_ids(
        oracles["qwen"].text(request)
    )


@pytest.mark.parametrize("name", ["nano", "qwen", "hermes"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [('{"name":"Fan"}', {"name": "Fan"}), ("[]", {}), ("", {})],
    ids=["object", "array", "nothing"],
)
def test_arguments_that_are_kept_as_text(
    formats: Formats, name: str, written: Any, meant: dict[str, Any]
) -> None:
    prompts = [
        formats[name].prepare(
            chat(
                user("Hi"),
                Message(
                    role="assistant",
                    tool_calls=[ToolCall(id="c1", name="A", arguments=arguments)],
                ),
                result("c1", "ok"),
            )
        )
        for arguments in (written, meant)
    ]
    assert prompts[0].token_ids == prompts[1].token_ids


@pytest.mark.parametrize("name", ["nano", "qwen", "hermes"])
@pytest.mark.parametrize("content", [{"state": "on"}, ["on"]], ids=["object", "array"])
def test_a_tool_s_result_that_is_no_text(
    formats: Formats, name: str, content: Any
) -> None:
    def prepared(shown: Any) -> Prompt:
        message = Message(role="tool", content=shown, tool_call_id="c1")
        return formats[name].prepare(chat(user("Hi"), calling("c1", "A"), message))

    assert prepared(content).token_ids == prepared(json.dumps(content)).token_ids


def long_talk(turns: int, *, thinking: bool = False) -> ChatRequest:
    """A conversation in which every question takes a tool."""
    thought = "Which lamp?" if thinking else None
    messages = [SYSTEM]
    for turn in range(turns):
        messages += [
            user(f"Turn on lamp {turn}"),
            calling(f"c{turn}", "HassTurnOn", name=f"Lamp {turn}"),
            result(f"c{turn}", '{"success": true}'),
            assistant(f"Lamp {turn} is on.", thought),
        ]
    return chat(*messages, user("And now?"), thinking=thinking)


class CountingTemplate(ChatTemplate):
    """A template that counts the messages which it writes."""

    num_messages = 0

    @override
    def render(
        self, messages: Sequence[Mapping[str, Any]], *args: Any, **kwargs: Any
    ) -> str:
        self.num_messages += len(messages)
        return super().render(messages, *args, **kwargs)


@pytest.mark.parametrize("name", ["nano", "qwen", "hermes", "keeps thinking"])
def test_work_grows_with_the_conversation_and_not_with_its_square(
    folders: dict[str, Path], name: str
) -> None:
    template = CountingTemplate.load(folders[name])
    builder = PromptBuilder(template, Tokenizer.load(folders[name]))
    counts = []
    for turns in (10, 20, 40):
        before = template.num_messages
        builder.build(long_talk(turns))
        counts.append(template.num_messages - before)
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


@every_folder
@thinking_on_and_off
def test_earlier_prompts_leave_at_breakpoints_of_a_long_talk(
    formats: Formats, name: str, thinking: bool
) -> None:
    request = long_talk(6, thinking=thinking)
    prompt = formats[name].prepare(request)
    answers = [
        index
        for index, message in enumerate(request.messages)
        if message.role == "assistant"
    ]
    leaving = [
        common(
            prompt.token_ids,
            formats[name]
            .prepare(replace(request, messages=request.messages[:index]))
            .token_ids,
        )
        for index in answers
    ]
    assert set(leaving) <= set(prompt.breakpoints)


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = {"type": "string"}
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS = {
    "object": lambda inner: {"type": "object", "properties": {"a": inner}},
    "array": lambda inner: {"type": "array", "items": inner},
    "anyOf": lambda inner: {"anyOf": [inner]},
    "list": lambda inner: [inner],
}


@pytest.mark.parametrize("kind", WRAPS)
@pytest.mark.parametrize("depth", [1200, 20_000])
def test_what_is_nested_too_deeply_is_refused(
    formats: Formats, kind: str, depth: int
) -> None:
    value = nested(depth, WRAPS[kind])
    tool = ToolSpec(name="Deep", description="", parameters={"properties": value})
    with pytest.raises(InvalidRequestError, match="nested too deeply"):
        formats["nano"].prepare(chat(user("Hi"), tools=(tool,)))
    with pytest.raises(InvalidRequestError, match="nested too deeply"):
        formats["nano"].prepare(
            chat(user("Hi"), calling("1", "Deep", x=value), user("Well?"))
        )

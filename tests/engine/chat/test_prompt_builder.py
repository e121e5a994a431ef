"""A request becomes exactly the reference library's tokens, with segments and breakpoints at the right tokens."""

from pathlib import Path

import pytest

from local_llm_engine.chat import ChatFormat
from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.types import ChatRequest, Message, Prompt, TextPart, ToolSpec

from .conversations import (
    CONVERSATIONS,
    DATE,
    DEVICE,
    FIRST_TURN,
    HOUSE,
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
from .model_folders import write_qwen_like_folder
from .oracle import Oracle

type Formats = dict[str, ChatFormat]
type Oracles = dict[str, Oracle]

every_folder = pytest.mark.parametrize(
    "name", ["nano", "qwen", "hermes", "keeps thinking"]
)
every_conversation = pytest.mark.parametrize("request_name", CONVERSATIONS)
thinking_on_and_off = pytest.mark.parametrize(
    "thinking", [True, False], ids=["thinking", "quick"]
)


def text_of(oracle: Oracle, token_ids: tuple[int, ...]) -> str:
    text: str = oracle.tokenizer.decode(list(token_ids), skip_special_tokens=False)
    return text


def words_of(oracle: Oracle, prompt: Prompt) -> str:
    return text_of(
        oracle, prompt.token_ids[prompt.question_start : prompt.question_end]
    )


def stretches(oracle: Oracle, prompt: Prompt) -> dict[str, str]:
    """The text of every segment."""
    starts = (0, *(segment.end for segment in prompt.segments))
    return {
        segment.name: text_of(oracle, prompt.token_ids[start : segment.end])
        for start, segment in zip(starts, prompt.segments, strict=False)
    }


def common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    return next(
        (
            n
            for n, pair in enumerate(zip(first, second, strict=False))
            if pair[0] != pair[1]
        ),
        min(len(first), len(second)),
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


def test_segments_with_tools_first(formats: Formats, oracles: Oracles) -> None:
    found = stretches(oracles["qwen"], formats["qwen"].prepare(SECOND_ROUND))
    assert list(found) == [
        "tools",
        "house",
        "date",
        "device",
        "question",
        "tool rounds",
        "generation prompt",
    ]
    assert found["tools"].startswith("<|im_start|>system\n# Tools")
    assert found["tools"].endswith("</IMPORTANT>\n\n")
    assert found["house"] == HOUSE
    assert found["date"] == DATE
    assert found["device"] == DEVICE.rstrip()
    assert found["question"] == "<|im_end|>\n<|im_start|>user\nTurn on the lights"
    assert found["tool rounds"].endswith("<tool_response>\n12:30")


def test_segments_with_tools_behind_the_words(
    formats: Formats, oracles: Oracles
) -> None:
    found = stretches(oracles["hermes"], formats["hermes"].prepare(FIRST_TURN))
    assert list(found) == [
        "house",
        "date",
        "device",
        "tools",
        "question",
        "generation prompt",
    ]
    # The newline at the device's end is one token with the two that follow.
    assert found["tools"].startswith("\n\n\nTools:")
    assert found["tools"].endswith("<|im_start|>user\n")


def test_segments_without_tools(formats: Formats, oracles: Oracles) -> None:
    found = stretches(oracles["nano"], formats["nano"].prepare(SECOND_TURN))
    assert list(found) == [
        "house",
        "date",
        "device",
        "history",
        "question",
        "generation prompt",
    ]
    assert found["house"] == f"<|im_start|>system\n{HOUSE}"
    assert found["history"].endswith(
        "Done at half past twelve.<|im_end|>\n<|im_start|>user\n"
    )
    assert found["question"] == "Und das Büro? 🛋️"


def test_segments_without_system(formats: Formats) -> None:
    prompt = formats["qwen"].prepare(chat(user("Hi"), tools=()))
    assert [segment.name for segment in prompt.segments] == [
        "question",
        "generation prompt",
    ]


def test_segment_of_a_token(formats: Formats) -> None:
    prompt = formats["qwen"].prepare(FIRST_TURN)
    assert prompt.segment_at(0) == "tools"
    assert prompt.segment_at(prompt.question_start) == "question"


@every_folder
def test_every_part_ends_at_a_breakpoint(formats: Formats, name: str) -> None:
    prompt = formats[name].prepare(FIRST_TURN)
    ends = {
        segment.end
        for segment in prompt.segments
        if segment.name in ("house", "date", "device")
    }
    assert len(ends) == 3
    assert ends <= set(prompt.breakpoints)


@every_folder
def test_parts_of_a_question_end_at_breakpoints(formats: Formats, name: str) -> None:
    parts = (TextPart(text="Turn on", segment="verb"), TextPart(text=" the lights"))
    prompt = formats[name].prepare(chat(SYSTEM, Message(role="user", content=parts)))
    whole = formats[name].prepare(chat(SYSTEM, user("Turn on the lights")))
    assert prompt.token_ids == whole.token_ids
    verb = next(segment.end for segment in prompt.segments if segment.name == "verb")
    assert prompt.question_start < verb < prompt.question_end
    assert verb in prompt.breakpoints
    assert prompt.question_end in prompt.breakpoints


@pytest.mark.parametrize("name", ["nano", "qwen"])
@pytest.mark.parametrize(
    "texts",
    [
        ("House", "", "Date"),
        ("House", "\n\n", "Date"),
        ("", "House", ""),
        ("\n", " House ", "\n"),
        ("  ", "\n", ""),
        ("",),
        ("House \n", "\n Date", " \n"),
    ],
    ids=[
        "empty",
        "blank",
        "outer empty",
        "outer blank",
        "all blank",
        "nothing",
        "split blanks",
    ],
)
def test_empty_and_blank_parts(
    formats: Formats,
    oracles: Oracles,
    name: str,
    texts: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = [
        TextPart(text=text, segment=f"part {index}") for index, text in enumerate(texts)
    ]
    request = chat(Message(role="system", content=parts), user(" Hi \n"))
    prompt = formats[name].prepare(request)
    assert prompt.token_ids == oracles[name].token_ids(oracles[name].text(request))
    assert prompt.segments[-1].end == len(prompt.token_ids)
    assert words_of(oracles[name], prompt).strip() == "Hi"
    assert text_of(oracles[name], prompt.token_ids[: prompt.question_start]).endswith(
        "<|im_start|>user\n"
    )
    assert not caplog.records


@every_folder
@thinking_on_and_off
@pytest.mark.parametrize(
    "request_name",
    ["first turn", "tool round", "second round", "second turn", "asked back"],
)
def test_the_next_turn_leaves_at_a_breakpoint(
    formats: Formats, name: str, request_name: str, thinking: bool
) -> None:
    """Nothing of this prompt that the next turn shares is read again, and no user's words are."""
    request = chat(*CONVERSATIONS[request_name].messages, thinking=thinking)
    answered = assistant("It is on.", thinking="Simple." if thinking else None)
    following = chat(
        *request.messages, answered, user("And now off"), thinking=thinking
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
    earlier = [chat(*r.messages, thinking=thinking) for r in (FIRST_TURN, SECOND_TURN)]
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


def test_another_device_shares_all_before_its_section(formats: Formats) -> None:
    def at(device: str) -> Prompt:
        parts = [
            TextPart(text=HOUSE),
            TextPart(text=DATE),
            TextPart(text=device, segment="device"),
        ]
        return formats["qwen"].prepare(
            chat(Message(role="system", content=parts), user("Hi"))
        )

    kitchen, office = at("\nYou are in the Kitchen."), at("\nYou are in the Office.")
    left = common(kitchen.token_ids, office.token_ids)
    assert kitchen.segment_at(left) == "device"
    assert (
        max(stop for stop in kitchen.breakpoints if stop <= left) in office.breakpoints
    )


@every_folder
@pytest.mark.parametrize("text", ["", " ", None], ids=["empty", "blank", "none"])
def test_a_question_without_words_ends_the_warm_up_where_words_would_begin(
    formats: Formats, name: str, text: str | None
) -> None:
    blank, asked = (
        formats[name].prepare(chat(SYSTEM, user(text))),
        formats[name].prepare(FIRST_TURN),
    )
    assert blank.question_start == asked.question_start
    assert blank.question_tokens == 0
    assert (
        blank.token_ids[: blank.question_start]
        == asked.token_ids[: asked.question_start]
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
def test_merged_parts_keep_their_segments(
    formats: Formats, oracles: Oracles, name: str
) -> None:
    late = Message(
        role="system", content=(TextPart(text="Be brief.", segment="manner"),)
    )
    found = stretches(
        oracles[name], formats[name].prepare(chat(SYSTEM, late, user("On")))
    )
    assert found["manner"].endswith("\n\nBe brief.")


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


def test_a_prompt_without_a_question(formats: Formats) -> None:
    prompt = formats["nano"].prepare(chat(SYSTEM))
    assert prompt.question_start == prompt.question_end == len(prompt.token_ids)


def test_a_conversation_that_ends_with_an_answer(
    formats: Formats, oracles: Oracles
) -> None:
    request = chat(SYSTEM, user("Hi"), assistant("Hello."))
    prompt = formats["qwen"].prepare(request)
    assert prompt.token_ids == oracles["qwen"].token_ids(oracles["qwen"].text(request))
    assert words_of(oracles["qwen"], prompt) == "Hi"


REWRITING_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content | replace('Kitchen', 'kitchen') | replace(' li', ' LI') }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""


def test_only_certain_breakpoints_in_a_rewriting_template(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A part's end within what the template rewrites cannot be measured; what lies before it can."""
    folder = write_qwen_like_folder(tmp_path)
    (folder / "chat_template.jinja").write_text(REWRITING_TEMPLATE, encoding="utf-8")
    chat_format = ChatFormat.load(folder)
    parts = [
        TextPart(text="House", segment="house"),
        TextPart(text=" in the Kit"),
        TextPart(text="chen"),
    ]
    request = chat(Message(role="system", content=parts), user("lights"), tools=())
    prompt = chat_format.prepare(request)
    chat_format.prepare(request)
    assert prompt.token_ids == Oracle(folder).token_ids(Oracle(folder).text(request))
    house = next(segment.end for segment in prompt.segments if segment.name == "house")
    assert house in prompt.breakpoints
    assert prompt.segments[-1].end == len(prompt.token_ids)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


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

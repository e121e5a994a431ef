"""The parts of a prompt are found in its tokens: segments without gaps, and breakpoints at their ends."""

from pathlib import Path

import pytest

from local_llm_engine.chat import ChatFormat
from local_llm_engine.prompts import Prompt
from local_llm_engine.types import Message, TextPart

from .conversations import (
    DATE,
    DEVICE,
    FIRST_TURN,
    HOUSE,
    SECOND_ROUND,
    SECOND_TURN,
    SYSTEM,
    chat,
    user,
)
from .model_folders import write_qwen_like_folder
from .oracle import Oracle
from .prompts import (
    Formats,
    Oracles,
    common,
    every_folder,
    stretches,
    text_of,
    words_of,
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


def test_a_prompt_without_a_question(formats: Formats) -> None:
    prompt = formats["nano"].prepare(chat(SYSTEM))
    assert prompt.question_start == prompt.question_end == len(prompt.token_ids)


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


SUSPICIOUS_TEMPLATE = """\
{%- for message in messages -%}
{%- if message.content[0] not in 'Hh' -%}{{ raise_exception('Greet first.') }}{%- endif -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
<|im_start|>assistant
"""


def test_a_template_that_refuses_to_be_measured(tmp_path: Path) -> None:
    """A request that the template accepts is served, with what breakpoints there are."""
    folder = write_qwen_like_folder(tmp_path)
    (folder / "chat_template.jinja").write_text(SUSPICIOUS_TEMPLATE, encoding="utf-8")
    request = chat(user("Hello"), tools=())
    prompt = ChatFormat.load(folder).prepare(request)
    assert prompt.token_ids == Oracle(folder).token_ids(Oracle(folder).text(request))
    assert prompt.segments[-1].end == len(prompt.token_ids)
    assert prompt.breakpoints == (len(prompt.token_ids),)

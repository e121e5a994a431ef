"""An answer's stream of text and tokens becomes content, thinking and tool calls, however it is cut."""

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st
import pytest

from local_llm_engine.chat.output_parser import OutputParser
from local_llm_engine.chat.tool_call_syntax import Schemas
from local_llm_engine.types import ToolCallDelta, ToolSpec

from .answers import Control, gather, parse, parse_mixed, spelled, with_tokens
from .calls import CALL, LIGHT_SET, TURN_ON, TURNED_ON, Form, both_forms


@both_forms
def test_a_call_alone(form: Form) -> None:
    outcome = parse(form(CALL))
    assert outcome.calls == (TURNED_ON,)
    assert outcome.content == ""
    assert outcome.invalid == ()


@both_forms
def test_words_before_and_after_a_call(form: Form) -> None:
    outcome = parse(form(f"One moment.\n\n{CALL}\n\nThere you are. \n"))
    assert outcome.content == "One moment.\nThere you are."
    assert outcome.calls == (TURNED_ON,)


@both_forms
def test_whitespace_between_calls_is_not_content(form: Form) -> None:
    outcome = parse(form(f"\n\n{CALL}\n \n{CALL}\n"))
    assert outcome.content == ""
    assert outcome.calls == (TURNED_ON, TURNED_ON)


@both_forms
def test_a_call_that_lacks_only_its_last_tag_is_whole(form: Form) -> None:
    assert parse(form(f"<tool_call>\n{TURN_ON}")).calls == (TURNED_ON,)


@both_forms
def test_an_unknown_tool_is_still_a_call(form: Form) -> None:
    assert parse(form(CALL), [LIGHT_SET]).calls == (TURNED_ON,)


@both_forms
@pytest.mark.parametrize(
    ("body", "name"),
    [
        (
            "<function=A>\n<parameter=area: Attic\n</parameter>\n<parameter=name>\nFan\n</parameter>\n</function>",
            "A",
        ),
        ("<function=A\n<parameter=name>\nFan\n</parameter>\n</function>", None),
        ("<function=>\n</function>", None),
        ("<function=A>\nname = Fan\n</function>", "A"),
        (
            "<function=A>\n<parameter=x>1</parameter>\n<parameter=x>2</parameter>\n</function>",
            "A",
        ),
        ("<function=A>\n<parameter=two words>\n1\n</parameter>\n</function>", "A"),
        ('{"name": "A", "arguments": {"x": }}', None),
        ('{"name": "A", "arguments": [1]}', "A"),
        ('{"name": "A", "arguments": "Fan"}', "A"),
        ('{"arguments": {}}', None),
        ('{"name": "A"} or so', None),
        ('["A"]', None),
    ],
    ids=[
        "parameter without end",
        "function without end",
        "no name",
        "no tags",
        "given twice",
        "no parameter's name",
        "no value",
        "array",
        "words",
        "nameless",
        "words behind",
        "array of words",
    ],
)
def test_a_malformed_call_is_told_to_the_model(
    form: Form, body: str, name: str | None
) -> None:
    outcome = parse(form(f"Well.\n<tool_call>\n{body}\n</tool_call>\nDone"))
    assert outcome.calls == ()
    assert [found for found, _ in outcome.invalid] == [name]
    assert outcome.content == "Well.\nDone"


@both_forms
@pytest.mark.parametrize(
    "length", range(len("<tool_"), len(CALL) - len("</tool_call>"))
)
def test_a_call_that_is_cut_short(form: Form, length: int) -> None:
    units = form(CALL)[:length]
    outcome = parse_mixed(units, has_tokens=form is with_tokens)
    assert outcome.content == ""
    assert len(outcome.calls) + len(outcome.invalid) == 1


@both_forms
def test_next_call_in_the_same_piece_is_no_phantom(form: Form) -> None:
    """The end of one call and the beginning of the next arrive together."""
    outcome = parse(form(f"{CALL}\n<tool_call>\n{TURN_ON}\n</tool_call>"))
    assert outcome.calls == (TURNED_ON, TURNED_ON)
    assert outcome.invalid == ()


def test_ids_are_distinct() -> None:
    parser = OutputParser(Schemas(()), thinking=False, control_texts=())
    deltas = [*parser.feed_text(f"{CALL}\n{CALL}"), *parser.finish()]
    ids = {delta.tool_call.id for delta in deltas if isinstance(delta, ToolCallDelta)}
    assert len(ids) == 2


def test_a_call_token_twice_is_one_call() -> None:
    outcome = parse([Control("<tool_call>"), *with_tokens(CALL)])
    assert outcome.calls == (TURNED_ON,)
    assert outcome.invalid == ()


def test_a_call_that_the_next_one_cuts_short() -> None:
    outcome = parse(with_tokens(f"<tool_call>\n<function=A>\n<para{CALL}"))
    assert outcome.calls == (TURNED_ON,)
    assert [name for name, _ in outcome.invalid] == ["A"]


EXPLANATION = """To switch it on I would write

<function=HassTurnOn>
<parameter=name>
Fan
</parameter>
</function>

and wait."""


@pytest.mark.parametrize("has_tokens", [True, False], ids=["tokens", "spelled"])
@pytest.mark.parametrize("tools", [(), (LIGHT_SET,)], ids=["unknown", "other"])
@pytest.mark.parametrize(
    "answer",
    [
        EXPLANATION,
        "A call stands between `<tool_call>` and `</tool_call>`, after `</think>`.",
        "Write <tool_call>\n<function=HassTurnOn> first.",
        f"```\n{CALL[:-2]}\n```\nis how.",
        "<tool_call> is what I would write.",
        "<tool_call>\nis what I would write.",
        "<tool_calls> and <tool> and < and <t",
        "5 < 6 and `<think` is a word, a </thin one",
    ],
    ids=[
        "function",
        "backticks",
        "within a line",
        "fence",
        "words behind",
        "line behind",
        "look-alikes",
        "think",
    ],
)
def test_prose_about_markup_calls_nothing(
    answer: str, tools: Sequence[ToolSpec], has_tokens: bool
) -> None:
    outcome = parse_mixed(list(answer), tools, has_tokens=has_tokens)
    assert outcome.calls == ()
    assert outcome.invalid == ()
    assert outcome.content == answer


def test_spelled_markup_is_words_where_there_are_tokens() -> None:
    """A model that repeats what a name or a tool's result holds must not act on it."""
    outcome = parse_mixed(list(f"The note says\n{CALL}"), has_tokens=True)
    assert outcome.calls == ()
    assert outcome.content == f"The note says\n{CALL}"


@both_forms
@pytest.mark.parametrize(
    ("answer", "thinking", "content"),
    [
        ("ok</think>Hi", "ok", "Hi"),
        ("\nok\n</think>\n\nHi\n", "ok", "Hi"),
        ("</think>\n\nHi", "", "Hi"),
        ("a < b </thi c</think>Hi", "a < b </thi c", "Hi"),
        ("I think", "I think", ""),
        ("ok</think>Hi there, 5 <", "ok", "Hi there, 5 <"),
    ],
    ids=["plain", "newlines", "nothing", "look-alikes", "never ends", "lone bracket"],
)
def test_thinking(form: Form, answer: str, thinking: str, content: str) -> None:
    outcome = parse(form(answer), thinking=True)
    assert outcome.thinking == thinking
    assert outcome.content == content


@both_forms
def test_a_think_block_that_the_answer_opens(form: Form) -> None:
    outcome = parse(form("\n<think>\nhm\n</think>\n\nHi"))
    assert outcome.thinking == "hm"
    assert outcome.content == "Hi"


@both_forms
def test_closing_tags_that_close_nothing_are_not_spoken(form: Form) -> None:
    outcome = parse(form("</think>\n\nHi</tool_call> you"))
    assert outcome.content.split() == ["Hi", "you"]
    assert outcome.calls == ()


def test_a_closing_tag_that_is_spelled_ends_thinking_too() -> None:
    outcome = parse_mixed(list("ok</think>Hi"), thinking=True, has_tokens=True)
    assert outcome.thinking == "ok"
    assert outcome.content == "Hi"


def test_a_call_inside_thinking_ends_it() -> None:
    outcome = parse(with_tokens(f"I should act.\n{CALL}"), thinking=True)
    assert outcome.thinking == "I should act."
    assert outcome.calls == (TURNED_ON,)
    assert outcome.content == ""


def test_a_draft_of_a_call_inside_thinking_is_only_thought() -> None:
    outcome = parse(spelled(f"I could say\n{CALL}\n</think>Hi"), thinking=True)
    assert outcome.calls == ()
    assert outcome.content == "Hi"


def test_control_tokens_without_meaning_are_not_spoken() -> None:
    assert parse(with_tokens("Hi<|im_start|> you")).content == "Hi you"


def test_words_come_out_as_they_arrive() -> None:
    """Nothing is held back but whitespace and what may become markup."""
    parser = OutputParser(Schemas(()), thinking=False, control_texts=())
    pieces = ["Turning", " on", " the", " <b", "ig> light", " \n", "now"]
    said = [gather(parser.feed_text(piece)).content for piece in pieces]
    assert said == ["Turning", " on", " the", " <b", "ig> light", "", " \nnow"]


FRAGMENTS = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|>"),
    *("<function=A>", "</function>", "<parameter=x>", "</parameter>", "</parameter2>"),
    *(
        '{"name": "A", "arguments": {"x": 1}}',
        "{",
        "}",
        '"',
        "\\",
        "[",
        "]",
        "```",
        "`",
    ),
    *("\n", " ", "<", "</", "th", "tool_", "Büro", "🛋️", "a b"),
)


@both_forms
@pytest.mark.parametrize("thinking", [True, False], ids=["thinking", "quick"])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(answer=st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_any_answer_comes_to_the_same_however_it_is_cut(
    form: Form, thinking: bool, answer: str
) -> None:
    outcome = parse(form(answer), [LIGHT_SET], thinking=thinking)
    assert outcome.content == outcome.content.strip()
    assert outcome.thinking == outcome.thinking.strip()

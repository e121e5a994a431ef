"""What the grammar of whole answers lets through: JSON of a schema, after thoughts, or calls."""

from collections.abc import Mapping
import json
from pathlib import Path
import shutil
from typing import Any

import pytest

from local_llm_engine.chat import ChatFormat
from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.types import ToolSpec

from .answers import gather
from .model_folders import write_json
from .schemas import satisfies
from .walks import asking, calling, can_end, draw, refused_at, token_ids

FORMATS = pytest.mark.parametrize("name", ["nano", "qwen", "hermes"])
SHORT = {"type": "string", "maxLength": 12}
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "object": {
        "type": "object",
        "properties": {
            "room": {"enum": ["Küche", "寝室", 'Işık \\ "Ecke"', "🛋️"]},
            "on": {"type": "boolean"},
            "level": {"type": "integer", "minimum": -3, "maximum": 17},
            "Note": SHORT,
        },
        "required": ["room", "on"],
        "additionalProperties": False,
    },
    "nested": {
        "type": "object",
        "properties": {
            "lines": {
                "type": "array",
                "minItems": 1,
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {
                        "amount": {"type": "number", "minimum": 0, "maximum": 9.5}
                    },
                    "required": ["amount"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["lines"],
        "additionalProperties": False,
    },
    "any of": {
        "anyOf": [
            {"type": "integer", "minimum": 5, "maximum": 6},
            {"type": "array", "items": {"type": ["null", "boolean"]}, "maxItems": 2},
            {"const": "none"},
        ]
    },
    "pattern": {"type": "string", "pattern": "^[a-f]{2}-[0-9]+$", "maxLength": 9},
}
COUNT = {"type": "integer", "minimum": 0, "maximum": 9}
DEFAULT_TOOL = ToolSpec(name="llm__GetDateTime", description="")


@pytest.fixture
def spelling(folders: dict[str, Path], tmp_path: Path) -> ChatFormat:
    """A model whose tokenizer has no tokens for markup."""
    shutil.copytree(folders["hermes"], tmp_path / "model")
    path = tmp_path / "model" / "tokenizer.json"
    specification = json.loads(path.read_text("utf-8"))
    specification["added_tokens"] = [
        token
        for token in specification["added_tokens"]
        if token["content"].startswith("<|")
    ]
    write_json(path, specification)
    return ChatFormat.load(tmp_path / "model")


@FORMATS
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_every_answer_that_ends_satisfies_its_schema(
    formats: dict[str, ChatFormat], name: str, schema: Mapping[str, Any]
) -> None:
    """Whatever is drawn from what is allowed."""
    request = asking(answer_schema=schema)
    walks = [draw(formats[name], request, seed) for seed in range(25)]
    ended = [gather(walk.deltas) for walk in walks if walk.has_ended]
    assert len(ended) > 20
    for outcome in ended:
        assert satisfies(json.loads(outcome.content), schema), outcome.content
        assert not outcome.thinking


@FORMATS
@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("7", None),
        ("10", "10"),
        ("", " and its end"),
        ("Seven", "S"),
        ("7.", "7."),
        ("7\n", "7\n"),
    ],
    ids=ascii,
)
def test_nothing_but_the_value_is_said(
    formats: dict[str, ChatFormat], name: str, answer: str, refused: str | None
) -> None:
    """And the answer can end where it is whole, nowhere else."""
    found = refused_at(formats[name], asking(answer_schema=COUNT), answer)
    assert found == refused or (refused == "S" and found is not None)


@pytest.mark.parametrize(
    ("name", "thinking", "answer", "is_allowed"),
    [
        pytest.param(
            "qwen",
            True,
            "I </thin> <tool_call>?</think>\n\n7",
            False,
            id="no call in a thought",
        ),
        pytest.param(
            "qwen",
            True,
            "I count to 1{, no.</think>\n\n7",
            True,
            id="begun by the template",
        ),
        pytest.param("qwen", True, "I think</think>7", True, id="no free line"),
        pytest.param("qwen", True, "I think", False, id="no end in a thought"),
        pytest.param("qwen", True, "7", False, id="no answer in a thought"),
        pytest.param("qwen", False, "7", True, id="no thought"),
        pytest.param(
            "qwen", False, "<think>Hm.</think>7", False, id="not asked to think"
        ),
        pytest.param(
            "hermes", True, "<think>\nHm.\n</think>\n\n7", True, id="begun by the model"
        ),
        pytest.param("hermes", True, "7", True, id="not begun"),
    ],
)
def test_the_schema_applies_after_thinking(
    formats: dict[str, ChatFormat],
    name: str,
    thinking: bool,
    answer: str,
    is_allowed: bool,
) -> None:
    """A thought is free, but ends."""
    request = asking(answer_schema=COUNT, thinking=thinking)
    assert (refused_at(formats[name], request, answer) is None) is is_allowed


def test_a_thought_never_holds_its_end_in_other_tokens(
    formats: dict[str, ChatFormat],
) -> None:
    """The parser would take what follows for the answer."""
    chat = formats["qwen"]
    guide = chat.guide(asking(answer_schema=COUNT, thinking=True))
    assert guide is not None
    *before, last = chat._tokenizer.plain_ids("so </think>")
    for token_id in before:
        guide.accept(token_id)
    mask = guide.allowed()
    assert mask is not None
    assert not mask[last // 8] >> last % 8 & 1


CALL = "<tool_call>\n<function=llm__GetDateTime>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("answer", "is_allowed"),
    [
        ("7", True),
        (CALL, True),
        (f"{CALL}\n{CALL}", True),
        (f"{CALL}7", False),
        (f"7{CALL}", False),
        (f"Wait. {CALL}", False),
        (CALL.replace("GetDateTime", "GetTime"), False),
    ],
    ids=[
        "value",
        "call",
        "calls",
        "value after",
        "call after",
        "words",
        "unknown tool",
    ],
)
def test_with_tools_an_answer_is_a_value_or_calls(
    formats: dict[str, ChatFormat], answer: str, is_allowed: bool
) -> None:
    """The value then comes once the calls are answered."""
    request = asking(answer_schema=COUNT, tools=(DEFAULT_TOOL,))
    assert (refused_at(formats["qwen"], request, answer) is None) is is_allowed


@pytest.mark.parametrize(
    ("answer", "is_allowed"),
    [
        ("<think>Hm.</think>\n7", True),
        ("7", True),
        ("<think>Hm.", False),
        (
            '<think>Hm.</think>\n<tool_call>\n{"name": "llm__GetDateTime", "arguments": {}}\n</tool_call>',
            True,
        ),
        ('<tool_call>\n{"name": "llm__GetTime', False),
    ],
)
def test_markup_without_tokens_is_held_too(
    spelling: ChatFormat, answer: str, is_allowed: bool
) -> None:
    """It is then part of the text."""
    request = asking(answer_schema=COUNT, tools=(DEFAULT_TOOL,), thinking=True)
    assert (refused_at(spelling, request, answer) is None) is is_allowed


@pytest.mark.parametrize(
    ("answer", "is_allowed"),
    [
        (
            'On it.\n<tool_call>\n{"name": "llm__GetDateTime", "arguments": {}}\n</tool_call> Done.',
            True,
        ),
        ('<tool_call>\n{"name": "llm__GetTime", "arguments": {}}\n</tool_call>', False),
        ("I would write <tool_call>\n{...", True),
        ('```\n<tool_call>\n{"name": "example', True),
        ('<tool_call>   {"name": "other', True),
    ],
    ids=["call", "unknown tool", "in a line", "fenced", "written in another way"],
)
def test_calls_without_tokens_are_held_where_the_parser_sees_one(
    spelling: ChatFormat, answer: str, is_allowed: bool
) -> None:
    """A call that begins otherwise than the model's template writes it goes on unheld."""
    assert (refused_at(spelling, calling(DEFAULT_TOOL), answer) is None) is is_allowed


def test_a_template_that_shows_no_calls_leaves_both_forms(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """As does one that refuses to show any."""
    source = "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}"
    refusing = "{% if messages | length > 1 and not messages[0].role == 'system' and messages[1].tool_calls %}{{ raise_exception('no calls') }}{% endif %}"
    for number, template in enumerate((source, refusing + source)):
        folder = tmp_path / str(number)
        shutil.copytree(folders["qwen"], folder)
        (folder / "chat_template.jinja").write_text(template)
        chat = ChatFormat.load(folder)
        request = calling(DEFAULT_TOOL)
        json_call = (
            '<tool_call>\n{"name": "llm__GetDateTime", "arguments": {}}\n</tool_call>'
        )
        assert refused_at(chat, request, CALL) is None
        assert refused_at(chat, request, json_call) is None


CIRCULAR: dict[str, Any] = {"type": "object"}
CIRCULAR["properties"] = {"again": CIRCULAR}


def deep(levels: int) -> dict[str, Any]:
    """A schema in a schema, so many times."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        pytest.param({"not": {"type": "string"}}, '"not"', id="unknown keyword"),
        pytest.param({"type": "string", "format": "RGB"}, "RGB", id="unknown format"),
        pytest.param({"type": "strin"}, "strin", id="unknown type"),
        pytest.param({"properties": {"a": 5}}, "5", id="no schema"),
        pytest.param(
            {"type": "string", "pattern": "(?=a)b"}, "look-ahead", id="pattern"
        ),
        pytest.param({"$ref": "https://example.com/a"}, "example.com", id="elsewhere"),
        pytest.param({"$ref": "#"}, "nothing satisfies", id="nothing but itself"),
        pytest.param({"enum": []}, "empty", id="no choice"),
        pytest.param(deep(50), "deep", id="deep"),
        pytest.param(deep(5000), "deep|recursion", id="very deep"),
        pytest.param(CIRCULAR, "JSON", id="circular"),
        pytest.param({"enum": [object()]}, "JSON", id="no JSON"),
        pytest.param(
            {"const": {"a": [float("nan"), {"b"}]}}, "JSON", id="no JSON inside"
        ),
        pytest.param(
            {"enum": ["x" * 400 + str(i) for i in range(3000)]}, "large", id="large"
        ),
        pytest.param(
            {"enum": [f"{i}{i}{i}" for i in range(90_000)]},
            "big|large",
            id="many choices",
        ),
    ],
)
def test_a_schema_that_cannot_be_held_is_refused_by_name(
    formats: dict[str, ChatFormat], schema: Any, complaint: str
) -> None:
    """In one line, and in no time."""
    with pytest.raises(InvalidRequestError, match=complaint) as caught:
        formats["qwen"].guide(asking(answer_schema=schema))
    assert "answer_schema" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recursive_schema_is_held(formats: dict[str, ChatFormat]) -> None:
    """A schema may refer to itself on the way down."""
    tree = {
        "type": "object",
        "properties": {"child": {"$ref": "#"}},
        "additionalProperties": False,
    }
    request = asking(answer_schema=tree)
    assert refused_at(formats["qwen"], request, '{"child": {"child": {}}}') is None
    assert refused_at(formats["qwen"], request, '{"child": {"son": {}}}') is not None


def test_a_schema_that_is_no_object_is_refused() -> None:
    """Before any model sees it."""
    with pytest.raises(InvalidRequestError, match="answer_schema"):
        asking(answer_schema=["object"])


@pytest.mark.parametrize("text", ["1e999", "123456789012345678901234567890"])
def test_numbers_stay_those_that_can_be_read(
    formats: dict[str, ChatFormat], text: str
) -> None:
    """Python would read infinity, or refuse to read on."""
    request = asking(answer_schema={"type": "number"})
    assert refused_at(formats["qwen"], request, text) is not None
    assert refused_at(formats["qwen"], request, "-12.75") is None


def test_several_end_tokens_end_an_answer(formats: dict[str, ChatFormat]) -> None:
    """The model's files name two."""
    chat = formats["qwen"]
    assert len(chat.end_token_ids) == 2
    guide = chat.guide(asking(answer_schema=COUNT))
    assert guide is not None
    assert not can_end(chat, guide)
    guide.accept(token_ids(chat, "7")[0])
    assert can_end(chat, guide)


def test_a_request_for_neither_is_not_guided(formats: dict[str, ChatFormat]) -> None:
    """Words are free."""
    assert formats["qwen"].guide(asking()) is None

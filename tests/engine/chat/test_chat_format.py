"""A model folder becomes a chat format, or a message that names what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from local_llm_engine.chat import ChatFormat
from local_llm_engine.chat.tokenizer import Tokenizer
from local_llm_engine.errors import ChatTemplateError
from local_llm_engine.types import ChatRequest, Delta, ToolSpec

from .answers import Outcome, gather
from .conversations import FIRST_TURN, chat, user
from .model_folders import copy_nano, write_json
from .oracle import Oracle

NANO_END, NANO_START, NANO_END_OF_TEXT = 2, 1, 0
NANO_VOCABULARY = 2_560


def answer(
    chat_format: ChatFormat,
    oracle: Oracle,
    text: str,
    request: ChatRequest = FIRST_TURN,
) -> Outcome:
    """Decode an answer token by token."""
    decoder = chat_format.decoder(request)
    deltas: list[Delta] = []
    for token_id in oracle.token_ids(text):
        deltas += decoder.feed(token_id)
    deltas += decoder.finish()
    outcome = gather(deltas)
    assert decoder.has_tool_calls == bool(outcome.calls or outcome.invalid)
    return outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder to break."""
    return copy_nano(tmp_path / "nano")


def test_nano(formats: dict[str, ChatFormat]) -> None:
    assert formats["nano"].end_token_ids == {NANO_END, NANO_END_OF_TEXT}
    assert formats["nano"].vocab_size == NANO_VOCABULARY


@pytest.mark.parametrize(
    ("generation", "named", "config", "expected"),
    [
        ({"eos_token_id": 0}, "<|im_end|>", {}, {0, 2}),
        ({"eos_token_id": [0, 1]}, "<|im_end|>", {"eos_token_id": None}, {0, 1, 2}),
        ({}, "<|im_end|>", {}, {2}),
        ({}, None, {"eos_token_id": [1, 2]}, {1, 2}),
        ({}, {"content": "<|im_start|>"}, {"text_config": {"eos_token_id": 0}}, {0, 1}),
        (
            {"eos_token_id": 2},
            None,
            {"eos_token_id": 0, "text_config": {"eos_token_id": 1}},
            {0, 1, 2},
        ),
    ],
    ids=["each one", "lists", "tokenizer", "config", "nested config", "all configs"],
)
def test_end_tokens_of_all_files(
    folder: Path,
    generation: dict[str, Any],
    named: Any,
    config: dict[str, Any],
    expected: set[int],
) -> None:
    """No file replaces another: the model may use either."""
    write_json(folder / "generation_config.json", generation)
    write_json(folder / "tokenizer_config.json", {"eos_token": named})
    write_json(folder / "config.json", {"vocab_size": NANO_VOCABULARY, **config})
    assert ChatFormat.load(folder).end_token_ids == expected


def test_no_generation_config(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    assert ChatFormat.load(folder).end_token_ids == {NANO_END}


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ChatTemplateError, match=f"{name} is missing"):
        ChatFormat.load(folder)


def test_a_missing_template_is_said(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ChatTemplateError, match="has no chat template"):
        ChatFormat.load(folder)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ],
)
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b"version https://git-lfs"],
    ids=["empty", "cut", "array", "deep", "bytes", "pointer"],
)
def test_a_broken_file_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(ChatTemplateError, match=name):
        ChatFormat.load(folder)


def test_a_template_that_renders_nothing_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(
        "{{ raise_exception('Never.') }}", encoding="utf-8"
    )
    with pytest.raises(ChatTemplateError, match="Never"):
        ChatFormat.load(folder)


@pytest.mark.parametrize("template", ["", " ", "{# nothing #}", "Hello"])
def test_a_template_that_leaves_the_question_out_is_refused(
    folder: Path, template: str
) -> None:
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    with pytest.raises(ChatTemplateError, match="does not write what it is asked"):
        ChatFormat.load(folder)


@pytest.mark.parametrize(
    "token_ids",
    [[[1]], [1, [2]], {"a": 1}, [{}], True, 1.5, "x", -1, 10**40],
    ids=lambda value: str(value)[:12] if not isinstance(value, int) else "number",
)
def test_end_tokens_that_are_no_ids_are_refused(
    folder: Path, token_ids: object
) -> None:
    generation = folder / "generation_config.json"
    write_json(generation, {"eos_token_id": token_ids})
    with pytest.raises(ChatTemplateError, match="as an end token"):
        ChatFormat.load(folder)


def test_an_endless_token_id_makes_no_endless_message(folder: Path) -> None:
    specification = json.loads((folder / "tokenizer.json").read_text())
    specification["added_tokens"][0]["id"] = 10**4000
    write_json(folder / "tokenizer.json", specification)
    with pytest.raises(ChatTemplateError, match="has token ids up to 1000") as caught:
        ChatFormat.load(folder)
    assert len(str(caught.value)) < 500


def test_an_infinite_token_id_is_refused(folder: Path) -> None:
    specification = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(
        specification.replace('"id": 0', '"id": 1e999', 1).replace(
            '"id":0', '"id":1e999', 1
        )
    )
    with pytest.raises(ChatTemplateError, match="not laid out as a tokenizer"):
        ChatFormat.load(folder)


def test_a_template_in_another_encoding_is_named(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes("Büro".encode("latin-1"))
    with pytest.raises(ChatTemplateError, match=r"chat_template\.jinja is not UTF-8"):
        ChatFormat.load(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "config.json",
            {"vocab_size": NANO_VOCABULARY - 1},
            "token ids up to 2559; the model's vocab_size is 2559",
        ),
        ("config.json", {"text_config": {"vocab_size": 10}}, "vocab_size is 10"),
        ("config.json", {}, "config.json has no vocab_size"),
        (
            "generation_config.json",
            {"eos_token_id": 5000},
            "names 5000 as an end token",
        ),
        ("generation_config.json", {"eos_token_id": "<|im_end|>"}, "as an end token"),
        (
            "tokenizer_config.json",
            {"eos_token": "</s>"},
            "the tokenizer has no token '</s>'",
        ),
        (
            "tokenizer_config.json",
            {"eos_token": "a\ud800"},
            r"has no token 'a\\ud800'",
        ),
        ("config.json", {"vocab_size": 1 << 40}, "no vocab_size from 1 to 4194304"),
    ],
    ids=[
        "vocabulary",
        "nested vocabulary",
        "no vocabulary",
        "end token",
        "end token's kind",
        "end token's name",
        "half a character as end token",
        "endless vocabulary",
    ],
)
def test_files_that_do_not_fit_are_refused(
    folder: Path, name: str, content: dict[str, Any], words: str
) -> None:
    write_json(folder / name, content)
    with pytest.raises(ChatTemplateError, match=words):
        ChatFormat.load(folder)


def test_half_a_character_of_the_template_is_replaced(folder: Path) -> None:
    """As one in anybody's words is: no tokenizer can read it."""
    (folder / "chat_template.jinja").write_text(
        "{{ messages[-1].content }}{{ '\\ud800' }}", encoding="utf-8"
    )
    chat = ChatFormat.load(folder)
    request = ChatRequest(messages=(user("Hello"),))
    expected = Tokenizer.load(folder).plain_ids("Hello\ufffd")
    assert list(chat.prepare(request).token_ids) == expected


def test_no_end_token_at_all(folder: Path) -> None:
    write_json(folder / "config.json", {"vocab_size": NANO_VOCABULARY})
    write_json(folder / "generation_config.json", {"eos_token_id": None})
    write_json(folder / "tokenizer_config.json", {})
    with pytest.raises(ChatTemplateError, match="no token that ends an answer"):
        ChatFormat.load(folder)


LIGHT_SET = ToolSpec(
    name="HassLightSet",
    description="",
    parameters={
        "properties": {"name": {"type": "string"}, "brightness": {"type": "integer"}}
    },
)
CALL = "<tool_call>\n<function=HassLightSet>\n<parameter=name>\nBüro 🛋️\n</parameter>\n<parameter=brightness>\n40\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize("name", ["nano", "qwen"])
def test_an_answer_token_by_token(
    formats: dict[str, ChatFormat], oracles: dict[str, Oracle], name: str
) -> None:
    request = chat(user("Hi"), tools=(LIGHT_SET,))
    text = f"Einen Moment 🛋️.\n{CALL}<|im_end|>"
    outcome = answer(formats[name], oracles[name], text, request)
    assert outcome.content == "Einen Moment 🛋️."
    assert outcome.calls == (("HassLightSet", {"name": "Büro 🛋️", "brightness": 40}),)


@pytest.mark.parametrize("name", ["nano", "qwen"])
def test_a_call_inside_of_words_is_not_carried_out(
    formats: dict[str, ChatFormat], oracles: dict[str, Oracle], name: str
) -> None:
    """The characters of a control token, written piece by piece."""
    chat_format = formats[name]
    decoder = chat_format.decoder(FIRST_TURN)
    deltas: list[Delta] = []
    for character in CALL:
        for token_id in oracles[name].token_ids(character):
            deltas += decoder.feed(token_id)
    outcome = gather([*deltas, *decoder.finish()])
    assert outcome.calls == ()
    assert outcome.content == CALL


@pytest.mark.parametrize(
    ("name", "thinking", "expected"),
    [
        ("qwen", True, ("hm", "Hi")),
        ("qwen", False, ("", "hm\nHi")),
        # Its tokenizer has no token for thoughts.
        ("nano", True, ("", "hm\n\n\nHi")),
        ("keeps thinking", True, ("hm", "Hi")),
        ("hermes", True, ("", "hm\nHi")),
    ],
)
def test_where_an_answer_begins(
    formats: dict[str, ChatFormat],
    oracles: dict[str, Oracle],
    name: str,
    thinking: bool,
    expected: tuple[str, str],
) -> None:
    """The template says whether the answer begins inside a think block."""
    request = chat(user("<think>"), tools=(), thinking=thinking)
    outcome = answer(formats[name], oracles[name], "hm\n</think>\n\nHi", request)
    assert (outcome.thinking, outcome.content) == expected


def test_an_end_token_is_no_content(formats: dict[str, ChatFormat]) -> None:
    decoder = formats["nano"].decoder(FIRST_TURN)
    assert decoder.feed(NANO_END) == []
    assert decoder.feed(NANO_START) == []
    assert decoder.finish() == []


def test_stopping_within_an_emoji(
    formats: dict[str, ChatFormat], oracles: dict[str, Oracle]
) -> None:
    token_ids = oracles["nano"].token_ids("Hi 🛋")
    decoder = formats["nano"].decoder(FIRST_TURN)
    deltas = [delta for token_id in token_ids[:-1] for delta in decoder.feed(token_id)]
    assert gather([*deltas, *decoder.finish()]).content == "Hi"


def test_stopping_within_a_call(
    formats: dict[str, ChatFormat], oracles: dict[str, Oracle]
) -> None:
    """At every token: never a word of markup, and never a call that was not whole."""
    whole = oracles["nano"].token_ids(CALL)
    for count in range(1, len(whole) - 6):
        decoder = formats["nano"].decoder(FIRST_TURN)
        deltas = [
            delta for token_id in whole[:count] for delta in decoder.feed(token_id)
        ]
        outcome = gather([*deltas, *decoder.finish()])
        assert outcome.content == ""
        assert outcome.calls == ()
        assert len(outcome.invalid) == 1
        assert "cut short" in outcome.invalid[0][1]

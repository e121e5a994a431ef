"""Rendered text becomes the reference's token ids; a tokenizer that could not keep that promise is refused."""

from collections.abc import Sequence
import json
from pathlib import Path
from typing import Any
import unicodedata

from hypothesis import given, settings, strategies as st
import pytest
from tokenizers import AddedToken, Tokenizer as Reference

from local_llm_engine.chat.tokenizer import Tokenizer, common_length
from local_llm_engine.errors import ChatTemplateError, InvalidRequestError

from .model_folders import copy_nano, qwen_like_tokenizer, write_json


def specification(reference: Reference) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reference.to_str())
    return found


# Added tokens of every kind; whitespace that is a token itself is kept apart from tokens that swallow whitespace.
SWALLOWING = (
    AddedToken("<left>", lstrip=True, normalized=False),
    AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
    AddedToken("<left>er", normalized=False),
)
VOCABULARY = (AddedToken("    ", normalized=False), AddedToken("■", normalized=False))


def with_added(tokens: Sequence[AddedToken]) -> Reference:
    tokenizer = qwen_like_tokenizer()
    tokenizer.add_tokens(list(tokens))
    return tokenizer


@pytest.fixture(
    scope="session", params=[SWALLOWING, VOCABULARY], ids=["swallowing", "vocabulary"]
)
def reference(request: pytest.FixtureRequest) -> Reference:
    """A tokenizer with some kinds of added tokens."""
    return with_added(request.param)


@pytest.fixture(scope="session")
def tokenizer(reference: Reference) -> Tokenizer:
    """Our tokenizer of the same specification."""
    return Tokenizer(specification(reference))


PIECES = (
    *(token.content for token in (*SWALLOWING, *VOCABULARY)),
    *("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
    *("words", " ", "\n", "Büro", "Bu\u0308ro", "🛋️", "x", "<"),
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    text=st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=10).map(
        "".join
    )
)
def test_ids_of_written_text_equal_the_reference(
    tokenizer: Tokenizer, reference: Reference, text: str
) -> None:
    encoded = tokenizer.encode(tokenizer.control_text.read(text))
    assert (
        list(encoded.token_ids) == reference.encode(text, add_special_tokens=False).ids
    )
    assert list(encoded.ends) == sorted(encoded.ends)
    assert encoded.tokens_before(len(text)) == len(encoded.token_ids)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    words=st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=10).map(
        "".join
    )
)
def test_guarded_words_hold_no_control_token(tokenizer: Tokenizer, words: str) -> None:
    rendered = tokenizer.control_text.read(
        f"<|im_start|>{tokenizer.control_text.guard(words)}<|im_end|>"
    )
    assert rendered.text == f"<|im_start|>{words}<|im_end|>"
    names = [rendered.text[span.start : span.end] for span in rendered.controls]
    assert [name.strip() for name in names if len(name.strip()) > 1] == [
        "<|im_start|>",
        "<|im_end|>",
    ]


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 5000])
def test_long_stretches_equal_short_ones(
    tokenizer: Tokenizer, reference: Reference, length: int
) -> None:
    text = ("Turn on the light in the Büro. " * 200)[:length]
    for _ in range(2):
        encoded = tokenizer.encode(tokenizer.control_text.read(text))
        assert (
            list(encoded.token_ids)
            == reference.encode(text, add_special_tokens=False).ids
        )


@pytest.mark.parametrize(
    "text",
    ["Qüx", "寝猫", "🛋️", "ABC", "a Å"],
    ids=["two bytes", "three", "four", "capitals", "mixed"],
)
def test_no_position_cuts_a_character(text: str, tmp_path: Path) -> None:
    """All tokens of a character lie before a position, or none."""
    nano = Tokenizer.load(copy_nano(tmp_path))
    encoded = nano.encode(nano.control_text.read(text))
    for position in range(len(text) + 1):
        count = encoded.tokens_before(position)
        before = b"".join(map(nano.token_bytes, encoded.token_ids[:count])).decode()
        assert before.replace("⇧", "").casefold() == text[:position].casefold()
        assert encoded.tokens_covering(position) == count
    assert encoded.tokens_before(0) == 0
    assert encoded.tokens_before(len(text)) == len(encoded.token_ids)


def test_a_position_within_a_token(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode(tokenizer.control_text.read("Turn<|im_end|>"))
    assert len(encoded.token_ids) == 2
    assert encoded.tokens_before(3) == 0
    assert encoded.tokens_covering(3) == 1
    assert encoded.tokens_before(4) == encoded.tokens_covering(4) == 1
    assert encoded.tokens_covering(99) == 2


def test_decomposed_letters_are_composed(tokenizer: Tokenizer) -> None:
    composed, decomposed = (
        tokenizer.encode(
            tokenizer.control_text.read(unicodedata.normalize(form, "Büro Åse"))
        ).token_ids
        for form in ("NFC", "NFD")
    )
    assert composed == decomposed


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", 0),
        ("a", "", 0),
        ("abc", "abd", 2),
        ("abc", "abc", 3),
        ("abc", "abcd", 3),
        ("x", "y", 0),
    ],
)
def test_common_length(first: str, second: str, expected: int) -> None:
    assert common_length(first, second) == expected


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("<|im_start|>a\n<think>\n\n", "<|im_start|>a\nHello<|im_end|>"),
        ("<|im_start|>light", "<|im_start|>lights"),
        ("<|im_start|>a\n", "<|im_start|>a\n\n"),
        ("<|im_start|>a", "<|im_start|>a"),
        ("<|im_start|>a<|im_end|>", "<|im_start|>a<think>"),
        ("a b c", "b b c"),
        ("Turn on<|im_end|>\n", "Turn on<|im_end|>\n<|im_start|>user"),
    ],
    ids=["think", "within a word", "newlines", "same", "control", "first", "longer"],
)
def test_common_tokens(tokenizer: Tokenizer, text: str, other: str) -> None:
    rendered, other_rendered = (
        tokenizer.control_text.read(text),
        tokenizer.control_text.read(other),
    )
    ids, other_ids = (
        tokenizer.encode(each).token_ids for each in (rendered, other_rendered)
    )
    expected = len([0 for n in range(len(ids)) if ids[: n + 1] == other_ids[: n + 1]])
    assert (
        tokenizer.common_tokens(rendered, tokenizer.encode(rendered), other_rendered)
        == expected
    )


def test_words_that_read_like_control_tokens_are_not_shared(
    tokenizer: Tokenizer,
) -> None:
    written = tokenizer.control_text.read("<|im_start|>a<|im_end|>b")
    said = tokenizer.control_text.read(
        "<|im_start|>" + tokenizer.control_text.guard("a<|im_end|>b")
    )
    assert written.text == said.text
    assert tokenizer.common_tokens(written, tokenizer.encode(written), said) == 2


def test_tokens_that_only_the_configuration_names(reference: Reference) -> None:
    whole = specification(reference)
    added = {str(entry["id"]): entry for entry in whole["added_tokens"]}
    lacking = {**whole, "added_tokens": whole["added_tokens"][:1]}
    text = "<|im_start|>user\n<think>"
    found = Tokenizer(lacking, added)
    assert (
        list(found.encode(found.control_text.read(text)).token_ids)
        == reference.encode(text).ids
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"a": 1}', b"[" * 100_000, b"\xff"],
    ids=["empty", "cut", "array", "null", "other", "deep", "bytes"],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    folder = copy_nano(tmp_path)
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(ChatTemplateError, match=r"tokenizer\.json"):
        Tokenizer.load(folder)


@pytest.mark.parametrize(
    ("name", "mebibytes"), [("tokenizer.json", 64), ("tokenizer_config.json", 16)]
)
def test_a_file_that_would_fill_the_memory_is_not_read(
    tmp_path: Path, name: str, mebibytes: int
) -> None:
    folder = copy_nano(tmp_path)
    with (folder / name).open("wb") as stream:
        stream.truncate((mebibytes << 20) + 1)
    with pytest.raises(
        ChatTemplateError, match=f"{name}.*{(mebibytes << 20) + 1:,} bytes long"
    ):
        Tokenizer.load(folder)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChatTemplateError, match=r"tokenizer\.json is missing"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"decoder": None},
        {
            "decoder": {
                "type": "Metaspace",
                "replacement": "\u2581",
                "prepend_scheme": "first",
            }
        },
        {
            "decoder": {
                "type": "Sequence",
                "decoders": [{"type": "ByteLevel"}, {"type": "Strip"}],
            }
        },
        {
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "ByteLevel"},
                    {"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"},
                ],
            }
        },
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["b", "c"]]}},
        {"model": 3},
        {"added_tokens": [{"id": "x", "content": "<a>"}]},
        {"added_tokens": [{"id": 3}]},
        {"added_tokens": 3},
        {"added_tokens": [{"id": 3, "content": "word", "single_word": True}]},
        {"added_tokens": [{"id": 3, "content": "a\ud800"}]},
        {"added_tokens": [{"id": 3, "content": "a" * 100_000}]},
        {"added_tokens": [{"id": 3, "content": f"<{i:>60}>"} for i in range(9_999)]},
    ],
    ids=[
        "none",
        "sentencepiece",
        "strip",
        "pattern",
        "merges",
        "model",
        "id",
        "content",
        "tokens",
        "single word",
        "half a character",
        "endless token",
        "endless tokens",
    ],
)
def test_an_unsupported_tokenizer_is_refused(
    reference: Reference, tmp_path: Path, change: dict[str, Any]
) -> None:
    write_json(tmp_path / "tokenizer.json", {**specification(reference), **change})
    with pytest.raises(ChatTemplateError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)


def test_a_tokenizer_that_spells_a_control_token_is_refused() -> None:
    """Its plain text could not be kept apart from control tokens."""
    tokenizer = qwen_like_tokenizer()
    whole = specification(tokenizer)
    entry = {
        **whole["added_tokens"][0],
        "content": "Turn",
        "id": tokenizer.token_to_id("Turn"),
    }
    with pytest.raises(ChatTemplateError, match="'Turn'"):
        Tokenizer({**whole, "added_tokens": [entry]})


def test_what_the_library_gives_up_on_is_refused() -> None:
    """It ends with what is no Exception where a merge makes more than the longest token has."""
    reference = specification(qwen_like_tokenizer())
    longest = max(reference["model"]["vocab"], key=len)
    reference["model"]["merges"].append([longest, longest])
    with pytest.raises(
        ChatTemplateError, match="the tokenizer cannot be built: range end"
    ):
        Tokenizer(reference)


@pytest.mark.parametrize("name", ["continuing_subword_prefix", "end_of_word_suffix"])
def test_what_would_end_the_process_in_the_library_is_refused(name: str) -> None:
    """A prefix that splits a character ends it with what cannot be caught."""
    reference = specification(qwen_like_tokenizer())
    for unused in (None, ""):
        reference["model"][name] = unused
        assert Tokenizer(reference).plain_ids("Hello")
    reference["model"][name] = "Z"
    with pytest.raises(ChatTemplateError, match=f"{name} is 'Z', not empty"):
        Tokenizer(reference)


def test_the_same_words_become_the_same_tokens_where_training_left_merges_out() -> None:
    """As a tokenizer does that was saved with the dropout of its training."""
    reference = specification(qwen_like_tokenizer())
    expected = Tokenizer(reference).plain_ids("Turn on the kitchen lights")
    reference["model"]["dropout"] = 1.0
    assert Tokenizer(reference).plain_ids("Turn on the kitchen lights") == expected


def test_words_that_would_fill_the_memory_are_refused(tokenizer: Tokenizer) -> None:
    """A character of four bytes may become as many tokens, and the library keeps a lot about each."""
    words = "🛋" * 500_001
    with pytest.raises(InvalidRequestError, match="2,000,004 bytes is too long"):
        tokenizer.plain_ids(words)


def endless(reference: Reference, pattern: str) -> dict[str, Any]:
    """A tokenizer that cuts words by a pattern."""
    cut = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}  # fmt: skip
    spell = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}  # fmt: skip
    steps = {"type": "Sequence", "pretokenizers": [cut, spell]}
    return {**specification(reference), "pre_tokenizer": steps}


def test_words_that_the_library_gives_up_on_are_refused() -> None:
    """A pattern that would look for ever is a request's failure and no panic."""
    tokenizer = Tokenizer(endless(qwen_like_tokenizer(), "(z+)+b"))
    assert tokenizer.plain_ids("Hello")
    with pytest.raises(InvalidRequestError, match="gives up on these words"):
        tokenizer.plain_ids("z" * 40)


def test_control_tokens_that_the_library_gives_up_on_are_refused() -> None:
    whole = endless(qwen_like_tokenizer(), "(z+)+b")
    whole["added_tokens"] = [{**whole["added_tokens"][0], "content": "z" * 40}]
    with pytest.raises(ChatTemplateError, match=r"'zzz.* cannot be read"):
        Tokenizer(whole)


def test_what_ends_the_process_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> Reference:
        raise KeyboardInterrupt

    reference = specification(qwen_like_tokenizer())
    monkeypatch.setattr("local_llm_engine.chat.encoder.Encoder.from_str", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Tokenizer(reference)

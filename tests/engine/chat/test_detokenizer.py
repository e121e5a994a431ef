"""Tokens become text one by one, never half a character, and together what the reference decodes."""

import json
import unicodedata

from hypothesis import given, settings, strategies as st
import pytest
from tokenizers import Tokenizer as Reference

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.chat.detokenizer import Detokenizer, Fragment
from local_llm_engine.chat.tokenizer import Tokenizer

from .model_folders import qwen_like_tokenizer
from .oracle import Oracle

TEXTS = ["🛋️", "ğ", "寝室のライト", "Büro ABC Å", "A", "⇧", "x ⇧a", "a\ufffdb", "Hello."]


@pytest.fixture(scope="module")
def nano() -> Tokenizer:
    """Its decoder rewrites text: a marker and a letter become a capital."""
    return Tokenizer.load(NANO_PATH)


def encode(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tokenizer.encode(tokenizer.control_text.read(text)).token_ids


def decode(tokenizer: Tokenizer, token_ids: tuple[int, ...]) -> list[Fragment]:
    detokenizer = Detokenizer(tokenizer)
    fragments = [
        piece for token_id in token_ids for piece in detokenizer.push(token_id)
    ]
    return [*fragments, *detokenizer.flush()]


def joined(fragments: list[Fragment]) -> str:
    return "".join(fragment.text for fragment in fragments)


@pytest.fixture(scope="module")
def reference() -> Reference:
    """The reference library's decoder for the same model."""
    return Oracle(NANO_PATH).tokenizer


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back(nano: Tokenizer, reference: Reference, text: str) -> None:
    token_ids = encode(nano, text)
    assert joined(decode(nano, token_ids)) == reference.decode(list(token_ids))


@pytest.mark.parametrize("text", TEXTS)
def test_stopping_anywhere_gives_whole_characters(nano: Tokenizer, text: str) -> None:
    """What comes out early stays: it is the beginning of the whole, without half a character."""
    token_ids = encode(nano, text)
    whole = joined(decode(nano, token_ids))
    for count in range(len(token_ids)):
        detokenizer = Detokenizer(nano)
        early = [
            piece
            for token_id in token_ids[:count]
            for piece in detokenizer.push(token_id)
        ]
        assert whole.startswith(joined(early))
        assert (
            "\ufffd" not in joined([*early, *detokenizer.flush()]) or "\ufffd" in text
        )


def test_an_emoji_comes_out_with_its_last_byte(nano: Tokenizer) -> None:
    detokenizer = Detokenizer(nano)
    said = [joined(detokenizer.push(token_id)) for token_id in encode(nano, "🛋")]
    assert said == [""] * (len(said) - 1) + ["🛋"]
    assert len(said) > 1


def test_a_capital_waits_for_its_letter(nano: Tokenizer) -> None:
    detokenizer = Detokenizer(nano)
    said = [joined(detokenizer.push(token_id)) for token_id in encode(nano, "aA")]
    assert said == ["a", "", "A"]


def test_a_marker_without_a_letter_stays(nano: Tokenizer) -> None:
    assert joined(decode(nano, encode(nano, "a⇧"))) == "a⇧"


def test_control_tokens_come_out_by_name(nano: Tokenizer) -> None:
    fragments = decode(nano, encode(nano, "On<tool_call>it<|im_end|>"))
    assert [fragment for fragment in fragments if fragment.is_control] == [
        Fragment("<tool_call>", is_control=True),
        Fragment("<|im_end|>", is_control=True),
    ]
    assert joined(fragments) == "On<tool_call>it<|im_end|>"


def test_a_control_token_ends_an_unfinished_character(nano: Tokenizer) -> None:
    token_ids = (*encode(nano, "🛋")[:-1], *encode(nano, "<think>"), *encode(nano, "ok"))
    assert joined(decode(nano, token_ids)) == "<think>ok"


def test_an_id_without_a_token_adds_nothing(nano: Tokenizer) -> None:
    assert decode(nano, (1_000_000,)) == []


@pytest.fixture(scope="module")
def qwen_like() -> Tokenizer:
    """A decoder that only joins bytes."""
    return Tokenizer(json.loads(qwen_like_tokenizer().to_str()))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(words=st.text(max_size=12))
def test_any_text_comes_back(qwen_like: Tokenizer, words: str) -> None:
    written = unicodedata.normalize("NFC", words)
    assert joined(decode(qwen_like, encode(qwen_like, words))) == written


@settings(max_examples=300, deadline=None, derandomize=True)
@given(token_ids=st.lists(st.integers(9, 941), max_size=12).map(tuple))
def test_any_tokens_decode_as_the_reference_does(
    nano: Tokenizer, reference: Reference, token_ids: tuple[int, ...]
) -> None:
    """Only where bytes form no character: the reference shows a sign for them, and we leave them out."""
    expected = reference.decode(list(token_ids))
    assert joined(decode(nano, token_ids)) == expected.replace("\ufffd", "")


def test_a_long_answer_takes_time_in_proportion(nano: Tokenizer) -> None:
    """Bytes that never become a character are not kept."""
    byte = encode(nano, "🛋")[0]
    assert decode(nano, (byte,) * 20_000) == []

"""Ways of looking at a prompt, and the models and conversations to look at."""

import pytest

from local_llm_engine.chat import ChatFormat
from local_llm_engine.prompts import Prompt

from .conversations import CONVERSATIONS
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

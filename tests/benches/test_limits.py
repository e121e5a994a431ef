"""Limits are counted in the tokens of the very prompt that they judge."""

import pytest

from local_llm_engine.prompts import Prompt, Segment
from scripts.benches.reread import limits

# 10 tokens of house, 3 of date, 4 of device, then 2 of template, 5 of question and 3 of template
PROMPT = Prompt(
    token_ids=tuple(range(27)),
    segments=(
        Segment(name="house", end=10),
        Segment(name="date", end=13),
        Segment(name="device", end=17),
        Segment(name="question", end=24),
        Segment(name="generation prompt", end=27),
    ),
    breakpoints=(10, 13, 17, 19, 27),
    question_start=19,
    question_end=24,
)


@pytest.mark.parametrize(
    ("limiter", "tokens"),
    [
        pytest.param(limits.question, 5 + 12, id="question"),
        pytest.param(limits.device, 4 + 2 + 5 + 12, id="device"),
        pytest.param(limits.date, 3 + 4 + 2 + 5 + 12, id="date"),
        pytest.param(limits.follows("name", 8), 19, id="what follows"),
        pytest.param(
            limits.follows("time", 8, interval=512, template=12), 543, id="first time"
        ),
        pytest.param(limits.everything, None, id="everything"),
    ],
)
def test_limit(limiter: limits.Limiter, tokens: int | None) -> None:
    assert limiter(PROMPT).tokens == tokens


@pytest.mark.parametrize(
    ("earlier", "answer_tokens", "tokens"),
    [
        pytest.param(tuple(range(20)), 0, 7 + 12, id="it goes on"),
        pytest.param(tuple(range(20)), 4, 3 + 12, id="with the answer that was read"),
        pytest.param((*range(15), 99), 4, 12 + 12, id="it is written anew"),
    ],
)
def test_news(earlier: tuple[int, ...], answer_tokens: int, tokens: int) -> None:
    before = Prompt(
        token_ids=earlier, segments=(), breakpoints=(), question_start=0, question_end=0
    )
    assert limits.news(before, answer_tokens)(PROMPT).tokens == tokens


def test_allows() -> None:
    assert limits.Limit("", 17).allows(17)
    assert not limits.Limit("", 17).allows(18)
    assert limits.Limit("", None).allows(10**6)

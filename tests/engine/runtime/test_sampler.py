"""Choosing tokens from logits."""

from dataclasses import replace

import pytest
import torch

from local_llm_engine.runtime.sampler import Sampler
from local_llm_engine.sampling import SamplingParams

LOGITS = torch.tensor([0.0, 3.0, 1.0, 2.0, -1.0])
PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0)


def drawn(
    params: SamplingParams,
    *,
    prompt: tuple[int, ...] = (),
    answer: tuple[int, ...] = (),
    times: int = 300,
) -> set[int]:
    """All tokens that come up in many draws."""
    sampler = Sampler(params, prompt, torch.device("cpu"))
    return {sampler.sample(LOGITS.clone(), answer) for _ in range(times)}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param(replace(PLAIN, temperature=0.0), {1}, id="greedy"),
        pytest.param(replace(PLAIN, top_k=2), {1, 3}, id="top-k"),
        pytest.param(replace(PLAIN, top_k=1), {1}, id="top-1"),
        pytest.param(replace(PLAIN, top_p=0.7), {1, 3}, id="top-p"),
        pytest.param(replace(PLAIN, top_p=0.01), {1}, id="top-p keeps one"),
        pytest.param(replace(PLAIN, min_p=0.2), {1, 3}, id="min-p"),
        pytest.param(replace(PLAIN, temperature=0.01), {1}, id="cold"),
        pytest.param(replace(PLAIN, temperature=5.0), {0, 1, 2, 3, 4}, id="hot"),
    ],
)
def test_filters_keep_the_right_tokens(
    params: SamplingParams, expected: set[int]
) -> None:
    """Every kept token comes up, no other ever does."""
    assert drawn(replace(params, seed=42)) == expected


@pytest.mark.parametrize("temperature", [5e-324, 1e-45, 1e-30, 5.0])
@pytest.mark.parametrize("top_p", [5e-324, 1e-30, 1 - 1e-16, 1.0])
@pytest.mark.parametrize("min_p", [0.0, 5e-324, 1.0])
@pytest.mark.parametrize("penalties", [(0.01, -10.0), (1.0, 0.0), (10.0, 10.0)])
def test_every_accepted_value_chooses_a_token(
    temperature: float, top_p: float, min_p: float, penalties: tuple[float, float]
) -> None:
    """The ends of the ranges, and what float32 rounds to 0 or to 1."""
    params = SamplingParams(
        temperature=temperature,
        top_k=0,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=penalties[0],
        presence_penalty=penalties[1],
        seed=42,
    )
    sampler = Sampler(params, (0, 1), torch.device("cpu"))
    logits = torch.tensor([3e4, -3e4, 0.0, 2.0, -5.0])
    assert sampler.sample(logits, (1, 2)) in range(5)


@pytest.mark.parametrize(
    "params",
    [{"temperature": 5e-324}, {"top_p": 5e-324}, {"min_p": 1.0}],
    ids=["temperature", "top-p", "min-p"],
)
def test_the_strictest_values_keep_the_likeliest_token(
    params: dict[str, float],
) -> None:
    """What is nearly greedy chooses as greedy does."""
    assert drawn(replace(PLAIN, seed=42, **params), times=50) == {1}  # type: ignore[arg-type]


def test_frequencies_follow_softmax() -> None:
    """Without filters, tokens come up as often as softmax says."""
    sampler = Sampler(replace(PLAIN, seed=42), (), torch.device("cpu"))
    draws = torch.tensor([sampler.sample(LOGITS.clone(), ()) for _ in range(4000)])
    frequencies = torch.bincount(draws, minlength=5) / 4000
    torch.testing.assert_close(frequencies, LOGITS.softmax(0), atol=0.03, rtol=0)


def test_repetition_penalty_lowers_tokens_of_prompt_and_answer() -> None:
    """Positive logits are divided, negative ones multiplied."""
    greedy = SamplingParams(temperature=0.0, repetition_penalty=2.0)
    assert drawn(greedy, times=1) == {1}
    assert drawn(greedy, answer=(1,), times=1) == {3}
    assert drawn(greedy, prompt=(1,), answer=(3, 3), times=1) == {1}
    logits = torch.tensor([-1.0, -1.5])
    assert Sampler(greedy, (0,), torch.device("cpu")).sample(logits, ()) == 1


def test_presence_penalty_lowers_only_the_answers_tokens() -> None:
    """Once for each token, however often it came."""
    greedy = SamplingParams(temperature=0.0, presence_penalty=1.5)
    assert drawn(greedy, prompt=(1,), times=1) == {1}
    assert drawn(greedy, answer=(1, 1, 1), times=1) == {3}


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        pytest.param(b"\x1f", {0, 1, 2, 3, 4}, id="all"),
        pytest.param(b"\x15", {0, 2, 4}, id="some"),
        pytest.param(b"\x10", {4}, id="the least likely"),
        pytest.param(b"\xe1\xff\x01", {0}, id="a mask that is too long"),
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 5.0], ids=["greedy", "hot"])
def test_only_what_is_allowed_is_chosen(
    allowed: bytes, expected: set[int], temperature: float
) -> None:
    """Whatever penalties and filters make of the rest."""
    params = SamplingParams(
        temperature=temperature,
        top_k=0,
        top_p=1.0,
        repetition_penalty=10.0,
        presence_penalty=-10.0,
        seed=42,
    )
    sampler = Sampler(params, (1,), torch.device("cpu"))
    found = {sampler.sample(LOGITS.clone(), (3,), allowed) for _ in range(300)}
    assert found <= expected
    assert temperature == 0 or found == expected


def test_a_row_beyond_the_mask_is_never_chosen() -> None:
    """A model's vocabulary may be larger than its tokenizer's, and than any mask."""
    logits = torch.cat([torch.zeros(8), torch.full((5,), 50.0)])
    greedy = Sampler(SamplingParams(temperature=0.0), (), torch.device("cpu"))
    assert greedy.sample(logits, (), b"\x04") == 2


def test_a_seed_repeats_and_its_lack_does_not() -> None:
    """The same seed draws the same tokens."""
    seeded = replace(PLAIN, temperature=5.0, seed=7)
    runs = [
        [Sampler(params, (), torch.device("cpu")) for _ in range(2)]
        for params in (seeded, replace(seeded, seed=None))
    ]
    draws = [
        [[sampler.sample(LOGITS.clone(), ()) for _ in range(50)] for sampler in run]
        for run in runs
    ]
    assert draws[0][0] == draws[0][1]
    assert draws[1][0] != draws[1][1]

"""Law 1 for every architecture: what resumes from a slot, from RAM or from disk equals a cold run, bit for bit."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.models.registry import Model, load_model
from tests.engine.models.checkpoints import FLOAT32
from tests.engine.models.oracles import KINDS, make, publish
from tests.engine.runtime.resuming import (
    BREAKPOINTS,
    ENOUGH_BYTES,
    PROMPT,
    TIERS,
    TOKENS,
    assert_resumed_equals_cold,
    cold_answer,
)
from tests.engine.runtime.test_runner import Session, assert_equal_bits, make_prompt

CHUNK = 32


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Model]:
    return {
        kind: load_model(
            publish(tmp_path_factory.mktemp(kind), kind, make(kind)), FLOAT32
        )
        for kind in KINDS
    }


@pytest.fixture(scope="module")
def cold(models: Mapping[str, Model]) -> Mapping[str, list[Tensor]]:
    """Logits of the answer after reading everything, for every architecture."""
    return {kind: cold_answer(model, CHUNK) for kind, model in models.items()}


@pytest.mark.parametrize("stop", BREAKPOINTS)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_equals_cold_bit_for_bit(
    tmp_path: Path,
    models: Mapping[str, Model],
    cold: Mapping[str, list[Tensor]],
    kind: str,
    tier: str,
    stop: int,
) -> None:
    """At every checkpoint, from every tier."""
    assert_resumed_equals_cold(
        tmp_path, models[kind], CHUNK, tier=tier, stop=stop, cold=cold[kind]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_goes_on_after_a_restart_of_the_slot(
    models: Mapping[str, Model], kind: str
) -> None:
    """What was decoded is not read again, and another prompt in between changes nothing."""
    whole, _ = Session(models[kind], PromptCache(ENOUGH_BYTES), CHUNK).answer(
        PROMPT, 24
    )
    tokens = [*TOKENS, *(int(logits.argmax()) for logits in whole)]
    session = Session(models[kind], PromptCache(ENOUGH_BYTES), CHUNK)
    session.answer(PROMPT, 16)
    session.answer(make_prompt(TOKENS[::-1], [100]), 2)
    going_on = make_prompt(tokens[: len(TOKENS) + 16], BREAKPOINTS)
    logits, usage = session.answer(going_on, 8)
    assert usage.reread_tokens == 1
    assert_equal_bits(logits, whole[16:])


@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_is_all_that_is_read(
    models: Mapping[str, Model], kind: str
) -> None:
    """A second prompt that parts inside a segment: the first time from the breakpoint before, then from there."""
    parted = make_prompt([*TOKENS[:100], *TOKENS[:60]], [50, 64, 110])
    again = make_prompt([*TOKENS[:100], *TOKENS[7:60]], [50, 64, 110])
    session = Session(models[kind], PromptCache(ENOUGH_BYTES), CHUNK)
    session.answer(PROMPT)
    assert session.answer(parted)[1].reused_tokens == 64
    logits, usage = session.answer(again)
    assert usage.reused_tokens == 100
    stops = [32, 50, 64, 96, 100, 110, 128, len(again.token_ids)]
    assert_equal_bits(logits, [read_with(models[kind], again.token_ids, stops)])


@torch.inference_mode()
def read_with(model: Model, token_ids: tuple[int, ...], stops: list[int]) -> Tensor:
    """Read a prompt from its first token with these stops; return the logits at its end."""
    state = model.new_state(256)
    for stop in stops:
        stretch = torch.tensor(token_ids[state.length : stop])
        last = model.forward(stretch, state, only_last=True)
    return model.logits(last)


def test_a_state_without_memory_costs_its_tokens_alone(
    models: Mapping[str, Model],
) -> None:
    """Full attention: a kept prompt is its KV, once, however many checkpoints stand on it."""
    cache = PromptCache(ENOUGH_BYTES)
    session = Session(models["llama"], cache, CHUNK)
    session.answer(PROMPT)
    state = models["llama"].new_state(8)
    assert cache.nbytes == len(TOKENS) * state.read_kv(0, 1).nbytes

"""A long stretch rests between layers: others may be served, and what was begun can be taken back."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.cache.state import DeltaState
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.runtime.sequence import Phase
from local_llm_engine.types import Purpose

from ..models.checkpoints import random_tokens
from ..models.oracles import make, publish
from .test_runner import ENOUGH_BYTES, HOUSE, Session, assert_equal_bits, make_prompt

KINDS = ("qwen3_5_text", "qwen3_next", "llama")
# Of HOUSE: six layers to token 256, one short stretch to 300, and two layers of the next.
STEPS = 6 + 1 + 2
READ_WHOLE = 300


@pytest.fixture(scope="module")
def nano() -> Model:
    return load_model(NANO_PATH, EngineConfig(dtype="float32"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Model]:
    def load(kind: str) -> Model:
        folder: Path = publish(tmp_path_factory.mktemp(kind), kind, make(kind))
        return load_model(folder, EngineConfig(dtype="float32"))

    return {kind: load(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_layer_by_layer_equals_all_at_once(
    models: Mapping[str, Model], kind: str
) -> None:
    model, tokens = models[kind], random_tokens(200)
    states = [model.new_state(256) for _ in range(2)]
    for stretch in (tokens[:130], tokens[130:]):
        expected = model.forward(stretch, states[0], only_last=True)
        reading = model.begin(stretch, states[1])
        steps = [reading.advance() for _ in range(model.summary.num_layers)]
        assert steps[:-1] == [None] * (model.summary.num_layers - 1)
        assert steps[-1] is not None
        assert torch.equal(steps[-1], expected)
    assert states[1].length == 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_layers", [0, 1])
def test_what_was_begun_can_be_taken_back(
    models: Mapping[str, Model], kind: str, num_layers: int
) -> None:
    model, tokens = models[kind], random_tokens(200)
    state = model.new_state(256)
    model.forward(tokens[:100], state)
    before = [part.clone() for layer in state.layers for part in memory(layer)]
    reading = model.begin(random_tokens(90), state)
    for _ in range(num_layers):
        assert reading.advance() is None
    reading.take_back()
    after = [part for layer in state.layers for part in memory(layer)]
    assert state.length == 100
    assert all(map(torch.equal, before, after, strict=True))
    untouched = model.new_state(256)
    model.forward(tokens[:100], untouched)
    rests = [model.forward(tokens[100:], each) for each in (state, untouched)]
    assert torch.equal(*rests)


def memory(layer: object) -> tuple[Tensor, ...]:
    return (layer.conv, layer.delta) if isinstance(layer, DeltaState) else ()


@pytest.fixture(scope="module")
def cold(nano: Model) -> list[Tensor]:
    return Session(nano, PromptCache(0)).answer(HOUSE, 8)[0]


def test_a_question_is_answered_in_the_middle_of_a_stretch_of_a_warm_up(
    nano: Model, cold: list[Tensor]
) -> None:
    question = make_prompt(list(HOUSE.token_ids[::-1]), [500])
    alone = Session(nano, PromptCache(0)).answer(question, 8)[0]
    session = Session(nano, PromptCache(ENOUGH_BYTES))
    warm_up = session.sequence(HOUSE, max_tokens=0, target=980, purpose=Purpose.WARM_UP)
    session.run(warm_up, steps=STEPS)
    assert_equal_bits(session.answer(question, 8)[0], alone)
    assert warm_up.phase is Phase.PREFILL
    session.run(warm_up)
    logits, usage = session.answer(HOUSE, 8)
    assert usage.reused_tokens == 980
    assert_equal_bits(logits, cold)


@pytest.mark.parametrize("purpose", [Purpose.VOICE, Purpose.WARM_UP, Purpose.PREFETCH])
def test_who_leaves_in_the_middle_of_a_stretch_leaves_what_was_read_whole(
    nano: Model, cold: list[Tensor], purpose: Purpose
) -> None:
    session = Session(nano, PromptCache(ENOUGH_BYTES))
    answers = 8 if purpose is Purpose.VOICE else 0
    leaver = session.sequence(HOUSE, max_tokens=answers, target=980, purpose=purpose)
    session.run(leaver, steps=STEPS)
    assert leaver.phase is Phase.PREFILL
    if purpose is Purpose.PREFETCH:
        session.runner.give_way(leaver)
    else:
        session.runner.abandon(leaver)
    logits, usage = session.answer(HOUSE, 8)
    assert usage.reused_tokens == READ_WHOLE
    assert_equal_bits(logits, cold)


def test_a_stretch_that_is_left_behind_spoils_no_other_prompt(
    nano: Model, cold: list[Tensor]
) -> None:
    session = Session(nano, PromptCache(ENOUGH_BYTES))
    failed = session.sequence(HOUSE, max_tokens=8)
    session.run(failed, steps=STEPS)
    session.runner.discard(failed)
    logits, usage = session.answer(HOUSE, 8)
    assert usage.reused_tokens == READ_WHOLE
    assert_equal_bits(logits, cold)

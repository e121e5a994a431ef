"""A prefetch: a prompt is in the voice's slot before the question is known, and nothing else changes."""

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.prompts import Prompt
from local_llm_engine.runtime.sequence import FinishEvent
from local_llm_engine.types import CallRecord, Outcome, Purpose

from .test_runner import (
    ENOUGH_BYTES,
    Session,
    assert_equal_bits,
    make_prompt,
    random_tokens,
)

HOUSE = random_tokens(600, 1)
START = 700


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(NANO_PATH, EngineConfig(dtype="float32"))


@pytest.fixture
def session(model: Model) -> Session:
    return Session(model, PromptCache(ENOUGH_BYTES))


def prompt_of(seed: int, *, num_more_tokens: int = 7) -> Prompt:
    """A satellite's prompt: the house, its own section and template, then a question and what follows."""
    own = random_tokens(START - len(HOUSE) + 30, seed)[: START - len(HOUSE)]
    more = random_tokens(num_more_tokens, seed + 100)
    return make_prompt([*HOUSE, *own, *more], [len(HOUSE), START])


def prefetch(session: Session, prompt: Prompt) -> CallRecord:
    session.run(
        session.sequence(prompt, max_tokens=0, target=START, purpose=Purpose.PREFETCH)
    )
    assert isinstance(session.events[-1], FinishEvent)
    return session.log.latest()[-1]


def warm(session: Session, *prompts: Prompt) -> None:
    for prompt in prompts:
        session.run(
            session.sequence(
                prompt, max_tokens=0, target=START, purpose=Purpose.WARM_UP
            )
        )


def test_the_question_finds_its_prompt_in_the_slot(
    model: Model, session: Session
) -> None:
    kitchen, bedroom = prompt_of(1), prompt_of(2)
    warm(session, kitchen, bedroom)
    session.answer(bedroom)
    record = prefetch(session, kitchen)
    assert (record.finish, record.usage.reread_tokens) == ("prefetched", 0)
    assert record.resumed_from == "ram"
    logits, usage = session.answer(kitchen, 4)
    assert session.log.latest()[-1].resumed_from == "slot"
    assert usage.reread_tokens == 7
    assert_equal_bits(logits, Session(model, PromptCache(0)).answer(kitchen, 4)[0])
    session.runner._cache.check_integrity()


def test_a_cold_prompt_is_read_while_somebody_speaks(
    model: Model, session: Session
) -> None:
    kitchen = prompt_of(1)
    assert prefetch(session, kitchen).usage.reread_tokens == START
    logits, usage = session.answer(kitchen, 4)
    assert usage.reread_tokens == 7
    assert_equal_bits(logits, Session(model, PromptCache(0)).answer(kitchen, 4)[0])


def test_a_question_takes_over_from_a_prefetch_that_is_not_through(
    model: Model, session: Session
) -> None:
    """Whose prompt it was decides only how much of it the question finds."""
    kitchen, bedroom = prompt_of(1), prompt_of(2)
    for prompt in (kitchen, bedroom):
        begun = session.sequence(
            kitchen, max_tokens=0, target=START, purpose=Purpose.PREFETCH
        )
        session.run(begun, steps=2)
        session.runner.give_way(begun)
        assert session.log.latest()[-1].finish == "gave_way"
        assert isinstance(session.events[-1], FinishEvent)
        logits, _ = session.answer(prompt, 4)
        assert_equal_bits(logits, Session(model, PromptCache(0)).answer(prompt, 4)[0])
    session.runner._cache.check_integrity()


def test_one_that_has_not_begun_gives_way_unread(session: Session) -> None:
    session.runner.give_way(
        session.sequence(
            prompt_of(1), max_tokens=0, target=START, purpose=Purpose.PREFETCH
        )
    )
    assert session.model.num_tokens == 0
    assert session.log.latest()[-1].finish == "gave_way"


def test_a_running_conversation_stays_in_the_slot(session: Session) -> None:
    """Its satellite listens again: all that the next question needs is there, and stays there."""
    first = prompt_of(1)
    session.answer(first, 5)
    record = prefetch(session, first)
    assert (record.resumed_from, record.usage.reread_tokens) == ("slot", 0)
    second = make_prompt(
        [*first.token_ids, *random_tokens(12, 9)], [len(HOUSE), START, 707]
    )
    session.answer(second)
    last = session.log.latest()[-1]
    assert (last.resumed_from, last.usage.reused_tokens) == ("slot", 707)


def test_is_no_question_of_its_session(session: Session) -> None:
    """The first question is told as the first."""
    kitchen = prompt_of(1)
    prefetch(session, kitchen)
    session.answer(kitchen)
    assert session.log.latest()[-1].outcome is Outcome.FIRST_TURN


def test_leaves_its_sessions_pin_where_it_is(session: Session) -> None:
    kitchen = prompt_of(1)
    warm(session, kitchen)
    prefetch(session, prompt_of(2))
    piece = session.runner._cache.find(kitchen.token_ids, START).piece
    assert piece is not None
    assert (piece.end, piece.payload.num_pins) == (START, 1)


def test_pushes_no_pinned_prompt_out(model: Model) -> None:
    kitchen, office = prompt_of(1), prompt_of(2)
    cache = PromptCache(ENOUGH_BYTES)
    for limit_bytes in (ENOUGH_BYTES, 0):
        cache = PromptCache(limit_bytes or cache.nbytes)
        session = Session(model, cache)
        for name, prompt in (("kitchen", kitchen), ("office", office)):
            sequence = session.sequence(
                prompt, max_tokens=0, target=START, purpose=Purpose.WARM_UP
            )
            sequence.session = name
            session.run(sequence)
    prefetch(session, prompt_of(3))
    for prompt in (kitchen, office):
        assert cache.find(prompt.token_ids, START).num_known_tokens == START
    assert cache.notices == ()
    cache.check_integrity()

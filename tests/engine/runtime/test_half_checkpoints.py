"""Checkpoints kept in float16: half the bytes, and what that does to answers."""

from itertools import islice, product

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.prompts import Prompt
from local_llm_engine.types import ChatRequest, Message, TextPart
from tests.engine.houses import ROOMS, THINGS, house_text
from tests.engine.runtime.test_runner import ENOUGH_BYTES, Session

NUM_QUESTIONS = 100
VERBS = ("turn on the", "turn off the", "open the", "close the", "is the", "dim the")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(NANO_PATH, EngineConfig(dtype="float32"))


def make_prompts() -> list[Prompt]:
    """Make questions about one house, each of another thing or with another verb."""
    chat = ChatFormat.load(NANO_PATH)
    words = product(VERBS, ROOMS, (thing for _, thing in THINGS))
    questions = [f"{verb} {room} {thing}".lower() for verb, room, thing in words]
    system = Message(
        role="system", content=(TextPart(text=house_text(), segment="house"),)
    )
    return [
        chat.prepare(
            ChatRequest(messages=(system, Message(role="user", content=question)))
        )
        for question in islice(questions, NUM_QUESTIONS)
    ]


def greedy_answers(
    model: Model, prompts: list[Prompt], *, half: bool
) -> list[list[int]]:
    """Answer every prompt from a checkpoint of the house."""
    session = Session(model, PromptCache(ENOUGH_BYTES, half_checkpoints=half))
    session.read(prompts[0], prompts[0].question_start)
    answers = []
    for prompt in prompts:
        fresh = Session(model, session.runner._cache)
        logits, usage = fresh.answer(prompt, 12)
        assert usage.reused_tokens > 0
        answers.append([int(row.argmax()) for row in logits])
    return answers


def test_answers_differ_in_at_most_one_of_a_hundred(model: Model) -> None:
    """Greedy, twelve tokens each, resumed from a stored state."""
    prompts = make_prompts()
    assert len(prompts) == NUM_QUESTIONS
    exact, half = (greedy_answers(model, prompts, half=half) for half in (False, True))
    assert sum(a != b for a, b in zip(exact, half, strict=True)) <= 1

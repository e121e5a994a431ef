"""A hit never changes the answer: law 1, held at every checkpoint, on a real hybrid model."""

from collections.abc import Callable
import random
import time
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.cache.records import CallLog
from local_llm_engine.cache.state import SequenceState
from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.model import Reading
from local_llm_engine.models.registry import Model, ModelSummary, load_model
from local_llm_engine.prompts import Prompt, Segment
from local_llm_engine.runtime.runner import Runner
from local_llm_engine.runtime.sequence import (
    FinishEvent,
    Phase,
    Sequence,
    SequenceEvent,
    TokenEvent,
)
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.types import (
    ChatRequest,
    Message,
    Outcome,
    Purpose,
    TextPart,
    Usage,
)
from tests.engine.houses import ROOMS, house_text

ENOUGH_BYTES = 1 << 30


class RecordingModel:
    """A model that keeps the logits it gave and counts the tokens it read."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.summary: ModelSummary = model.summary
        self.device = model.device
        self.dtype = model.dtype
        self.all_logits: list[Tensor] = []
        self.num_tokens = 0

    def new_state(self, capacity: int) -> SequenceState:
        return self._model.new_state(capacity)

    def forward(
        self, token_ids: Tensor, state: SequenceState, *, only_last: bool = False
    ) -> Tensor:
        self.num_tokens += len(token_ids)
        return self._model.forward(token_ids, state, only_last=only_last)

    def begin(self, token_ids: Tensor, state: SequenceState) -> Reading:
        self.num_tokens += len(token_ids)
        return self._model.begin(token_ids, state)

    def logits(self, hidden: Tensor) -> Tensor:
        logits = self._model.logits(hidden)
        self.all_logits.append(logits.clone())
        return logits


class Session:
    """A runner on one cache, and what came of its sequences."""

    def __init__(self, model: Model, cache: PromptCache, chunk: int = 256) -> None:
        self.model = RecordingModel(model)
        self.log = CallLog()
        self.runner = Runner(
            self.model, cache, self.log, context_length=8_192, chunk=chunk
        )
        self.events: list[SequenceEvent] = []

    def sequence(
        self,
        prompt: Prompt,
        *,
        max_tokens: int = 1,
        target: int | None = None,
        purpose: Purpose = Purpose.VOICE,
    ) -> Sequence:
        return Sequence(
            prompt=prompt,
            sampling=SamplingParams(temperature=0.0),
            purpose=purpose,
            session="test",
            target=target or len(prompt.token_ids),
            max_tokens=max_tokens,
            end_token_ids=frozenset(),
            emit=self.events.append,
        )

    def run(self, sequence: Sequence, *, steps: int = 1_000_000) -> None:
        while sequence.phase is not Phase.ENDED and steps:
            self.runner.step(sequence)
            steps -= 1

    def answer(self, prompt: Prompt, max_tokens: int = 1) -> tuple[list[Tensor], Usage]:
        """Greedy logits of every answer token, and what they cost."""
        self.model.all_logits.clear()
        self.run(self.sequence(prompt, max_tokens=max_tokens))
        finish = self.events[-1]
        assert isinstance(finish, FinishEvent)
        return list(self.model.all_logits), finish.usage

    def read(self, prompt: Prompt, target: int) -> None:
        """Read a prompt's head, as a warm-up does."""
        self.run(self.sequence(prompt, max_tokens=0, target=target))


def make_prompt(token_ids: list[int], breakpoints: list[int]) -> Prompt:
    return Prompt(
        token_ids=tuple(token_ids),
        segments=tuple(
            Segment(name=f"to {end}", end=end) for end in (*breakpoints, len(token_ids))
        ),
        breakpoints=tuple(breakpoints),
        question_start=breakpoints[-1],
        question_end=len(token_ids),
    )


def random_tokens(count: int, seed: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(9, 1024) for _ in range(count)]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(NANO_PATH, EngineConfig(dtype="float32"))


def make_long_house() -> Prompt:
    """A satellite's second question in a house of more than 100 rooms, as the integration lays it out."""
    rooms = tuple(
        f"{floor} {room}" for floor in FLOORS for room in (*ROOMS, "Attic", "Study")
    )
    system = (
        TextPart(text=house_text(rooms), segment="house"),
        TextPart(text="Today is Sunday, 29 November 2026.\n", segment="date"),
        TextPart(text="You are in area Upper Kitchen.", segment="device"),
    )
    messages = (
        Message(role="system", content=system),
        Message(role="user", content="turn on the lights"),
        Message(role="assistant", content="Turned on the lights."),
        Message(role="user", content="thank you"),
    )
    return ChatFormat.load(NANO_PATH).prepare(ChatRequest(messages=messages))


FLOORS = (
    *("Upper", "Lower", "Old", "New", "Garden", "Guest"),
    *("North", "South", "East", "West", "Summer"),
)
LONG_HOUSE = make_long_house()
LENGTH = len(LONG_HOUSE.token_ids)
HOUSE = make_prompt(random_tokens(1_000, 1), [300, 640, 860, 864, 927, 980])


@pytest.fixture(scope="module")
def long_cold(model: Model) -> list[Tensor]:
    """Logits of eight answer tokens after reading a long prompt from its first token."""
    return Session(model, PromptCache(0)).answer(LONG_HOUSE, 8)[0]


@pytest.fixture(scope="module")
def cold(model: Model) -> list[Tensor]:
    """Logits of eight answer tokens after reading everything."""
    return Session(model, PromptCache(0)).answer(HOUSE, 8)[0]


def assert_equal_bits(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(ours) == len(theirs)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("stop", LONG_HOUSE.breakpoints[:-1])
@pytest.mark.parametrize("same_slot", [True, False], ids=["slot", "ram"])
def test_resumed_equals_cold_bit_for_bit(
    model: Model, long_cold: list[Tensor], stop: int, same_slot: bool
) -> None:
    """At every checkpoint of a prompt of 5,000 tokens, from either tier."""
    cache = PromptCache(ENOUGH_BYTES)
    reader = Session(model, cache)
    reader.read(LONG_HOUSE, stop)
    session = {True: reader, False: Session(model, cache)}[same_slot]
    logits, usage = session.answer(LONG_HOUSE, 8)
    assert (usage.reused_tokens, usage.reread_tokens) == (stop, LENGTH - stop)
    assert (
        session.log.latest()[-1].resumed_from == {True: "slot", False: "ram"}[same_slot]
    )
    assert_equal_bits(logits, long_cold)


def test_the_long_house_is_as_long_as_real_ones() -> None:
    """So that the test above speaks of what homes send."""
    assert 5_000 <= LENGTH <= 6_000
    assert len(LONG_HOUSE.breakpoints) >= 7


def test_a_second_satellite_reads_only_its_own_lines_and_answers_as_if_alone(
    model: Model,
) -> None:
    """Two prompts that share a house, in turn, from one slot."""
    kitchen = HOUSE
    bedroom = make_prompt(
        [*HOUSE.token_ids[:864], *random_tokens(90, 2)], [*HOUSE.breakpoints[:4], 930]
    )
    alone = Session(model, PromptCache(0)).answer(bedroom, 8)[0]
    session = Session(model, PromptCache(ENOUGH_BYTES))
    session.answer(kitchen, 8)
    logits, usage = session.answer(bedroom, 8)
    assert usage.reread_tokens == 90
    assert_equal_bits(logits, alone)
    record = session.log.latest()[-1]
    assert (record.outcome, record.divergence_token, record.divergence_segment) == (
        Outcome.HISTORY_REWRITTEN,
        864,
        "to 930",
    )


def test_the_same_prompt_three_times_gives_the_same_answer(
    model: Model, cold: list[Tensor]
) -> None:
    """A full hit still computes what follows the last checkpoint before the end."""
    session = Session(model, PromptCache(ENOUGH_BYTES))
    answers = [session.answer(HOUSE, 8) for _ in range(3)]
    for logits, _ in answers:
        assert_equal_bits(logits, cold)
    assert [usage.reread_tokens for _, usage in answers] == [
        len(HOUSE.token_ids),
        20,
        20,
    ]
    assert [record.outcome for record in session.log.latest()] == [
        Outcome.FIRST_TURN,
        Outcome.REGENERATED,
        Outcome.REGENERATED,
    ]


def test_a_conversation_goes_on_from_the_state_that_spoke(model: Model) -> None:
    """What was decoded is not read again: the same bits as an answer that was never interrupted."""
    whole, _ = Session(model, PromptCache(ENOUGH_BYTES)).answer(HOUSE, 24)
    tokens = [*HOUSE.token_ids, *(int(logits.argmax()) for logits in whole)]
    session = Session(model, PromptCache(ENOUGH_BYTES))
    session.answer(HOUSE, 16)
    going_on = make_prompt(tokens[: len(HOUSE.token_ids) + 16], list(HOUSE.breakpoints))
    logits, usage = session.answer(going_on, 8)
    assert usage.reread_tokens == 1
    assert_equal_bits(logits, whole[16:])


@pytest.mark.parametrize("chunk", [1, 7, 63, 64, 65])
def test_any_chunk_resumes_as_it_read(model: Model, chunk: int) -> None:
    """No state is filed under a boundary that it does not stand on."""
    prompt = make_prompt(random_tokens(200, 3), [50, 64, 128, 130])
    expected = Session(model, PromptCache(0), chunk).answer(prompt, 4)[0]
    for stop in prompt.breakpoints:
        cache = PromptCache(ENOUGH_BYTES)
        Session(model, cache, chunk).read(prompt, stop)
        logits, usage = Session(model, cache, chunk).answer(prompt, 4)
        assert usage.reused_tokens == stop
        assert_equal_bits(logits, expected)


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_reuse_does_not_depend_on_the_length_being_a_multiple_of_the_chunk(
    model: Model, offset: int
) -> None:
    """Lengths around a multiple of the chunk reuse the same."""
    prompt = make_prompt(random_tokens(3 * 64 + offset, 4), [100, 150])
    session = Session(model, PromptCache(ENOUGH_BYTES), chunk=64)
    session.answer(prompt)
    assert session.answer(prompt)[1].reused_tokens == 150


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_cancelled_prefill_leaves_its_prefix_warm(
    model: Model, cold: list[Tensor], share: float
) -> None:
    """What was read is kept; the same prompt goes on from there and answers as if cold."""
    session = Session(model, PromptCache(ENOUGH_BYTES))
    cancelled = session.sequence(HOUSE)
    while session.model.num_tokens < share * len(HOUSE.token_ids):
        session.run(cancelled, steps=1)
    session.runner.abandon(cancelled)
    assert session.log.latest()[-1].finish == "cancelled"
    logits, usage = session.answer(HOUSE, 8)
    assert usage.reused_tokens >= share * len(HOUSE.token_ids) - 256
    assert_equal_bits(logits, cold)


def test_a_request_cancelled_right_after_its_answer_stays_warm(model: Model) -> None:
    """Decoding and cancelling loses nothing either."""
    session = Session(model, PromptCache(ENOUGH_BYTES))
    cancelled = session.sequence(HOUSE, max_tokens=50)
    while sum(isinstance(event, TokenEvent) for event in session.events) < 10:
        session.run(cancelled, steps=1)
    session.runner.abandon(cancelled)
    tokens = [
        event.token_id for event in session.events if isinstance(event, TokenEvent)
    ]
    going_on = make_prompt([*HOUSE.token_ids, *tokens, 9], list(HOUSE.breakpoints))
    assert session.answer(going_on)[1].reread_tokens <= 2


def test_the_first_token_goes_out_before_the_prompt_is_kept(model: Model) -> None:
    """Whoever waits for it does not wait for a copy of the state; the copy is there before the second."""
    session = Session(model, PromptCache(ENOUGH_BYTES))
    sequence = session.sequence(HOUSE, max_tokens=50)
    known_at_tokens: list[int] = []

    def note(event: SequenceEvent) -> None:
        if isinstance(event, TokenEvent):
            known_at_tokens.append(session.runner.known(HOUSE.token_ids)[0])

    sequence.emit = note
    while len(known_at_tokens) < 2:
        session.run(sequence, steps=1)
    assert known_at_tokens == [HOUSE.breakpoints[-1], len(HOUSE.token_ids)]


@pytest.mark.parametrize("ends", ["at its limit", "at once"])
def test_the_time_to_the_first_token_leaves_out_what_is_kept_after_it(
    model: Model, ends: str
) -> None:
    """Also where the answer ends there."""
    cache = PromptCache(ENOUGH_BYTES)
    session = Session(model, cache)
    session.run(session.sequence(HOUSE, max_tokens=0))
    sequence = session.sequence(HOUSE, max_tokens=1)
    if_at_once = frozenset(range(model.summary.vocab_size))
    sequence.end_token_ids = {"at once": if_at_once}.get(ends, frozenset())
    kept_at: list[float] = []

    def keep(*_: Any) -> None:
        kept_at.append(time.perf_counter())

    with patch.object(cache, "store", keep):
        session.run(sequence)
    usage = session.log.latest()[-1].usage
    first_at = sequence.accepted_at + usage.time_to_first_token_seconds
    assert first_at <= kept_at[-1]


def interleavings() -> list[Callable[[Session, Sequence, Sequence], None]]:
    """Ways in which a warm-up and a spoken question share the engine."""

    def warm_up_interrupted(
        session: Session, warm_up: Sequence, voice: Sequence
    ) -> None:
        session.run(warm_up, steps=2)
        session.run(voice)
        session.run(warm_up)

    def taking_turns(session: Session, warm_up: Sequence, voice: Sequence) -> None:
        while Phase.ENDED not in (warm_up.phase, voice.phase):
            session.run(warm_up, steps=1)
            session.run(voice, steps=1)
        session.run(warm_up)
        session.run(voice)

    return [warm_up_interrupted, taking_turns]


@pytest.mark.parametrize("interleave", interleavings(), ids=lambda way: way.__name__)
def test_a_warm_up_during_an_answer_changes_neither(
    model: Model, interleave: Callable[[Session, Sequence, Sequence], None]
) -> None:
    """Two sequences that share a prefix, read at the same time, each equal their solo run."""
    kitchen = HOUSE
    bedroom = make_prompt(
        [*HOUSE.token_ids[:864], *random_tokens(90, 5)], [*HOUSE.breakpoints[:4], 930]
    )
    alone = [
        Session(model, PromptCache(0)).answer(prompt, 8)[0]
        for prompt in (kitchen, bedroom)
    ]
    cache = PromptCache(ENOUGH_BYTES)
    session = Session(model, cache)
    warm_up = session.sequence(
        kitchen, max_tokens=0, target=980, purpose=Purpose.WARM_UP
    )
    voice = session.sequence(bedroom, max_tokens=8)
    interleave(session, warm_up, voice)
    cache.check_integrity()
    for prompt, expected in zip((kitchen, bedroom), alone, strict=True):
        assert_equal_bits(session.answer(prompt, 8)[0], expected)


def test_a_hit_leaves_what_is_stored_untouched(
    model: Model, cold: list[Tensor]
) -> None:
    """Fifty tokens generated on a hit do not seep into the cache."""
    session = Session(model, PromptCache(ENOUGH_BYTES))
    session.answer(HOUSE, 8)
    session.answer(HOUSE, 50)
    assert_equal_bits(Session(model, session.runner._cache).answer(HOUSE, 8)[0], cold)


def test_stops_of_different_prompts_do_not_mix(model: Model) -> None:
    """The same tokens cut differently answer as the run that they resume from."""
    tokens = random_tokens(600, 6)
    coarse, fine = make_prompt(tokens, [400]), make_prompt(tokens, [100, 300, 400])
    cache = PromptCache(ENOUGH_BYTES)
    expected = [
        Session(model, PromptCache(0)).answer(prompt, 4)[0] for prompt in (coarse, fine)
    ]
    Session(model, cache).read(coarse, 400)
    assert_equal_bits(Session(model, cache).answer(fine, 4)[0], expected[0])
    cache = PromptCache(ENOUGH_BYTES)
    Session(model, cache).read(fine, 300)
    assert_equal_bits(Session(model, cache).answer(coarse, 4)[0], expected[1])


def test_what_was_written_and_what_was_read_do_not_mix(model: Model) -> None:
    """The same tokens, once read and once decoded, differ by rounding: a slot that wrote them goes on alone."""
    whole, _ = Session(model, PromptCache(ENOUGH_BYTES)).answer(HOUSE, 16)
    answer = [int(logits.argmax()) for logits in whole]
    length = len(HOUSE.token_ids)
    going_on = make_prompt(
        [*HOUSE.token_ids, *answer[:15], 9, 10],
        [*HOUSE.breakpoints, length, length + 15],
    )
    cache = PromptCache(ENOUGH_BYTES)
    Session(model, cache).read(going_on, length + 15)
    session = Session(model, cache)
    session.answer(HOUSE, 16)
    from_slot = session.answer(going_on, 4)[0]
    assert_equal_bits(Session(model, cache).answer(going_on, 4)[0], from_slot)
    cache.check_integrity()


def test_under_a_tight_budget_answers_stay_right(
    model: Model, cold: list[Tensor]
) -> None:
    """Evictions between and during runs cost tokens, never the answer."""
    needed = Session(model, PromptCache(ENOUGH_BYTES))
    needed.answer(HOUSE)
    for share in (0.02, 0.3, 0.9, 1.2):
        cache = PromptCache(int(needed.runner._cache.nbytes * share))
        session = Session(model, cache)
        for seed in (7, 8, 9):
            other = make_prompt(
                [*HOUSE.token_ids[:640], *random_tokens(400, seed)], [300, 640, 1_000]
            )
            session.answer(other, 2)
            cache.check_integrity()
        assert_equal_bits(session.answer(HOUSE, 8)[0], cold)

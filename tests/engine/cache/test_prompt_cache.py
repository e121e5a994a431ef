"""The prompt cache in RAM: what is put back is what was there, bit for bit, within the budget."""

import pytest
import torch

from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.cache.ranks import Reader
from local_llm_engine.types import Purpose
from tests.engine.cache.slots import (
    BYTES_PER_CHECKPOINT,
    BYTES_PER_TOKEN,
    assert_same_state,
    make_slot,
    read,
    resume,
)

HOUSE = tuple(range(20))
KITCHEN, BEDROOM = (*HOUSE, 101, 7, 8), (*HOUSE, 102, 9)


def test_every_checkpoint_is_restored_into_another_slot_bit_for_bit() -> None:
    """Restore plus rest equals cold."""
    cache = PromptCache(1 << 20)
    read(cache, make_slot(), KITCHEN, 5, 20, 23)
    for limit, expected in [(4, None), (5, 5), (19, 5), (20, 20), (23, 23)]:
        piece = cache.find(KITCHEN, limit).piece
        slot = make_slot()
        resume(cache, slot, KITCHEN, limit)
        assert (piece.end if piece else None) == expected
        cold = make_slot()
        read(PromptCache(0), cold, KITCHEN)
        read(PromptCache(0), slot, KITCHEN)
        assert_same_state(slot.state, cold.state)


def test_a_slot_copies_only_what_it_does_not_hold() -> None:
    """From one satellite to the next only the other's own lines move."""
    cache = PromptCache(1 << 20)
    slot = make_slot()
    read(cache, slot, KITCHEN, 20, 23)
    other = make_slot()
    assert resume(cache, other, BEDROOM, 22).copied_tokens == 20
    read(cache, other, BEDROOM, 22)
    assert resume(cache, slot, KITCHEN, 23).copied_tokens == 0
    assert resume(cache, slot, BEDROOM, 22).copied_tokens == 2
    cold = make_slot()
    read(PromptCache(0), cold, BEDROOM)
    assert_same_state(slot.state, cold.state)


def test_a_common_prefix_is_stored_once() -> None:
    """Bytes are those of every distinct run and checkpoint."""
    cache = PromptCache(1 << 20)
    for prompt in (KITCHEN, BEDROOM):
        slot = make_slot()
        resume(cache, slot, prompt, 20)
        read(cache, slot, prompt, 20, len(prompt))
    assert cache.nbytes == (20 + 3 + 2) * BYTES_PER_TOKEN + 3 * BYTES_PER_CHECKPOINT
    assert cache.num_prompts == 2


def test_a_hit_hands_out_copies() -> None:
    """Going on from a restored state leaves what is stored untouched."""
    cache = PromptCache(1 << 20)
    read(cache, make_slot(), KITCHEN, 20)
    piece = cache.find(KITCHEN, 20).piece
    assert piece is not None
    content = piece.payload.content
    assert content is not None
    before = [
        tensor.clone()
        for part in (content.checkpoint.delta, content.kv.tensors)
        for tensor in part
    ]
    slot = make_slot()
    resume(cache, slot, KITCHEN, 20)
    read(cache, slot, (*KITCHEN, *range(30)), 53)
    after = [
        tensor
        for part in (content.checkpoint.delta, content.kv.tensors)
        for tensor in part
    ]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_the_budget_holds_and_the_house_outlives_old_questions() -> None:
    """The least recently used leaves go, their common prefix stays."""
    one_prompt = 20 * BYTES_PER_TOKEN + BYTES_PER_CHECKPOINT
    one_question = 3 * BYTES_PER_TOKEN + BYTES_PER_CHECKPOINT
    cache = PromptCache(one_prompt + 2 * one_question)
    slot = make_slot()
    for question in range(10):
        prompt = (*HOUSE, 50 + question, 1, 2)
        resume(cache, slot, prompt, 22)
        read(cache, slot, prompt, 20, 23)
        cache.check_integrity()
    known = [
        cache.find((*HOUSE, 50 + question, 1, 2), 23).piece for question in range(10)
    ]
    assert [piece.end if piece else 0 for piece in known] == [20] * 8 + [23] * 2


def test_a_prompt_larger_than_the_budget_is_said_once() -> None:
    """Nothing is kept, nothing breaks, and status can tell why."""
    cache = PromptCache(10)
    for _ in range(2):
        read(cache, make_slot(), KITCHEN, 20, 23)
    assert cache.nbytes == 0
    assert len(cache.notices) == 1
    assert "no room" in cache.notices[0]


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_release_makes_a_slots_pieces_evictable(limit: int) -> None:
    """A failed sequence leaves nothing held."""
    cache = PromptCache(limit)
    slot = make_slot()
    read(cache, slot, KITCHEN, 20, 23)
    cache.release(slot)
    assert slot.piece is None
    assert slot.state.length == 0
    cache.check_integrity()


def reading(purpose: Purpose, session: str = "kitchen") -> Reader:
    """Make a reader whose questions begin after the house."""
    return Reader(purpose, session, question_start=20)


ONE_HOUSE = 20 * BYTES_PER_TOKEN + BYTES_PER_CHECKPOINT
ONE_QUESTION = 3 * BYTES_PER_TOKEN + BYTES_PER_CHECKPOINT


def test_background_work_pushes_out_only_background_work() -> None:
    """An AI task never costs the voice a token, however much it reads."""
    cache = PromptCache(ONE_HOUSE + 2 * ONE_QUESTION)
    read(cache, make_slot(), KITCHEN, 20, 23)
    for task in range(5):
        slot = make_slot()
        prompt = tuple(range(200 + task, 203 + task))
        read(cache, slot, prompt, 3, reader=reading(Purpose.BACKGROUND))
        assert cache.find(prompt, 3).piece is not None
        cache.release(slot)
        cache.check_integrity()
    foreign = tuple(range(500, 540))
    read(cache, make_slot(), foreign, 40, reader=reading(Purpose.BACKGROUND))
    assert cache.find(foreign, 40).piece is None
    kitchen = cache.find(KITCHEN, 23).piece
    assert kitchen is not None
    assert kitchen.end == 23


def test_what_is_warm_outlives_any_number_of_conversations() -> None:
    """A pinned prompt goes last; its session's older pin is let go."""
    cache = PromptCache(2 * ONE_HOUSE + 2 * ONE_QUESTION)
    slot = make_slot()
    warm_up = reading(Purpose.WARM_UP)
    read(cache, slot, HOUSE, 20, reader=warm_up)
    cache.pin(slot, warm_up)
    cache.release(slot)
    for question in range(8):
        slot = make_slot()
        foreign = tuple(range(100 * question + 1_000, 100 * question + 1_023))
        read(cache, slot, foreign, 20, 23, reader=reading(Purpose.VOICE, "chat"))
        cache.release(slot)
        cache.check_integrity()
    kept = cache.find(HOUSE, 20).piece
    assert kept is not None
    assert kept.payload.num_pins == 1
    slot = make_slot()
    read(cache, slot, tuple(range(300, 320)), 20, reader=warm_up)
    cache.pin(slot, warm_up)
    assert kept.payload.num_pins == 0
    cache.check_integrity()


def test_half_checkpoints_take_half_the_bytes_and_come_back_close() -> None:
    """Stored in float16, live in float32."""
    exact, half = PromptCache(1 << 20), PromptCache(1 << 20, half_checkpoints=True)
    for cache in (exact, half):
        read(cache, make_slot(), KITCHEN, 23)
    assert exact.nbytes - half.nbytes == 2 * 4 * 5 * 2
    slots = [make_slot(), make_slot()]
    for cache, slot in zip((exact, half), slots, strict=True):
        resume(cache, slot, KITCHEN, 23)
    states = [slot.state.checkpoint().delta[0] for slot in slots]
    assert all(state.dtype is torch.float32 for state in states)
    torch.testing.assert_close(*states, rtol=2**-10, atol=0)

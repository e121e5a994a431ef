"""Slots whose state depends on every token read, without a model."""

import torch

from local_llm_engine.cache.kv_state import KVState
from local_llm_engine.cache.prompt_cache import PromptCache, Restored, Slot
from local_llm_engine.cache.ranks import Reader
from local_llm_engine.cache.state import DeltaState, SequenceState
from local_llm_engine.types import Purpose

CPU = torch.device("cpu")
CAPACITY = 64
KITCHEN_VOICE = Reader(Purpose.VOICE, "kitchen", question_start=20)
BYTES_PER_TOKEN = 2 * 2 * 4 * 4
BYTES_PER_CHECKPOINT = 6 * 3 * 4 + 2 * 4 * 5 * 4


def make_slot() -> Slot:
    """Make a slot of one DeltaNet and one attention layer."""
    delta = DeltaState(
        num_channels=6,
        kernel_size=4,
        num_heads=2,
        key_dim=4,
        value_dim=5,
        dtype=torch.float32,
        device=CPU,
    )
    kv = KVState.make(
        num_heads=2, head_dim=4, capacity=CAPACITY, dtype=torch.float32, device=CPU
    )
    return Slot(SequenceState([delta, kv], CAPACITY))


def read(
    cache: PromptCache,
    slot: Slot,
    tokens: tuple[int, ...],
    *stops: int,
    reader: Reader = KITCHEN_VOICE,
) -> None:
    """Read `tokens` as a model would whose state depends on every token before; store at each stop."""
    delta, kv = slot.state.layers
    assert isinstance(delta, DeltaState)
    assert isinstance(kv, KVState)
    for position in range(slot.state.length, len(tokens)):
        delta.delta.mul_(0.9).add_(tokens[position])
        delta.conv.copy_(delta.conv.roll(1)).add_(tokens[position] / 7)
        rows = delta.delta[:, :, :1].transpose(1, 2)
        kv.append(position, rows, rows + 1)
        slot.state.length = position + 1
        if position + 1 in stops:
            cache.store(tokens[: position + 1], slot, reader)


def assert_same_state(ours: SequenceState, theirs: SequenceState) -> None:
    """Equal to the last bit, garbage rows apart."""
    assert ours.length == theirs.length
    for mine, other in zip(
        (*ours.checkpoint().delta, *ours.checkpoint().conv),
        (*theirs.checkpoint().delta, *theirs.checkpoint().conv),
        strict=True,
    ):
        assert torch.equal(mine, other)
    for mine, other in zip(
        ours.read_kv(0, ours.length).tensors,
        theirs.read_kv(0, theirs.length).tensors,
        strict=True,
    ):
        assert torch.equal(mine, other)


def resume(
    cache: PromptCache,
    slot: Slot,
    tokens: tuple[int, ...],
    limit: int,
    reader: Reader = KITCHEN_VOICE,
) -> Restored:
    """Bring a slot as far as the cache knows `tokens`, at most to `limit`."""
    return cache.resume(tokens, limit, slot, reader)[1]

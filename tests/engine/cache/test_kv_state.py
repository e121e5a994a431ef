"""The buffers of keys and values: what one row looks at past the sequence's end never reaches an answer."""

import pytest
import torch
from torch import Tensor

from local_llm_engine.cache.kv_state import KVState
from local_llm_engine.cache.state import Checkpoint, SequenceState

CAPACITY = 300
NAN = float("nan")


def poisoned() -> KVState:
    """Make buffers in which an overflow of an earlier sequence left no number."""
    state = KVState.make(
        num_heads=2,
        head_dim=4,
        capacity=CAPACITY,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    for buffer in state.tensors:
        buffer.fill_(NAN)
    return state


def rows(num_tokens: int) -> Tensor:
    return torch.ones(2, num_tokens, 4, dtype=torch.bfloat16)


def append(state: KVState, position: int, num_tokens: int) -> None:
    state.append(position, rows(num_tokens), rows(num_tokens))


@pytest.mark.parametrize("first", [1, 127, 128, 129, 256])
def test_padding_is_finite_after_every_token(first: int) -> None:
    state = poisoned()
    append(state, 0, first)
    for position in range(first, CAPACITY):
        _, values = state.padded_rows(position)
        assert position <= values.shape[1] < position + 128
        assert values.isfinite().all()
        append(state, position, 1)


def test_padding_is_finite_after_going_back() -> None:
    kv = poisoned()
    state = SequenceState([kv], CAPACITY)
    append(kv, 0, 40)
    kv.tensors[1][:, 40:].fill_(NAN)
    state.restore(Checkpoint(length=40, conv=(), delta=()))
    append(kv, 40, 1)
    assert kv.padded_rows(41)[1].isfinite().all()

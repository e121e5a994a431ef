"""The state of a sequence by a model's config.json alone: no weights are needed to know its bytes or to copy it."""

from dataclasses import dataclass
from typing import Self

import torch

from local_llm_engine.cache.state import SequenceState
from local_llm_engine.models.config import ModelConfig
from local_llm_engine.models.decoder import new_state


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSizes:
    """Bytes of one exact checkpoint, and of the KV of one token."""

    checkpoint_bytes: int
    token_bytes: int

    @classmethod
    def of(cls, config: ModelConfig, dtype: torch.dtype) -> Self:
        """Measure a state of one token."""
        state = empty_state(config, 1, dtype)
        return cls(
            checkpoint_bytes=state.checkpoint_nbytes,
            token_bytes=state.read_kv(0, 1).nbytes,
        )


def empty_state(
    config: ModelConfig, capacity: int, dtype: torch.dtype
) -> SequenceState:
    """Make the state that a model of this configuration has in `dtype` on a CPU."""
    return new_state(config, capacity, dtype=dtype, device=torch.device("cpu"))

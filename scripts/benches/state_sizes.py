"""The state of a sequence by a model's config.json alone: no weights are needed to know its bytes or to copy it."""

from dataclasses import dataclass
from typing import Self

import torch

from local_llm_engine.cache.state import DeltaState, KVState, SequenceState
from local_llm_engine.models.config import LayerType, ModelConfig
from local_llm_engine.models.gated_delta_net import num_conv_channels


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
    return SequenceState(
        [_layer_state(config, kind, capacity, dtype) for kind in config.layer_types],
        capacity,
    )


def _layer_state(
    config: ModelConfig, kind: LayerType, capacity: int, dtype: torch.dtype
) -> KVState | DeltaState:
    device = torch.device("cpu")
    if kind == "full_attention":
        return KVState(
            num_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            capacity=capacity,
            dtype=dtype,
            device=device,
        )
    return DeltaState(
        num_channels=num_conv_channels(config),
        kernel_size=config.linear_conv_kernel_dim,
        num_heads=config.linear_num_value_heads,
        key_dim=config.linear_key_head_dim,
        value_dim=config.linear_value_head_dim,
        dtype=dtype,
        device=device,
    )

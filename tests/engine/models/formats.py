"""Small models whose matrices are large enough for our own formats, and what these matrices stand for."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor

from local_llm_engine.config import Dtype, EngineConfig, Weights
from local_llm_engine.models.model import Model
from local_llm_engine.models.registry import load_model
from local_llm_engine.weights.linear import (
    Int4Linear,
    Int8Linear,
    LinearWeight,
    PlainLinear,
)
from local_llm_engine.weights.loader import WeightLoader

from .oracles import KINDS, make, publish

_SIZES: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_size": 64,
        "intermediate_size": 128,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
    }
)


def publish_sized(folder: Path, kind: str, **changes: Any) -> Path:
    """Write a small model of an architecture whose rows come in blocks and whose columns in groups."""
    own = {name: size for name, size in _SIZES.items() if name in KINDS[kind].fields}
    return publish(folder, kind, make(kind, {**own, **changes}))


def load_in(folder: Path, weights: Weights, dtype: Dtype = "float32") -> Model:
    return load_model(folder, EngineConfig(dtype=dtype, weights=weights))


def dequantized(linear: LinearWeight) -> Tensor:
    """What a matrix of our own formats stands for, in float32."""
    if isinstance(linear, Int8Linear):
        return linear._codes.float() * linear._scales.float()[..., None]
    assert isinstance(linear, Int4Linear)
    if linear._codes.ndim == 4:
        several = [dequantized(linear[index]) for index in range(len(linear._codes))]
        return torch.stack(several)
    num_rows = linear._scales.shape[1]
    return linear.columns(0, num_rows, torch.float32).t().contiguous()


def dequantizing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have models loaded with plain matrices in place of those of our own formats; return the kinds of these."""
    kinds: list[str] = []
    load = WeightLoader._linear

    def load_plain(loader: WeightLoader, stored: Any) -> LinearWeight:
        linear = load(loader, stored)
        if isinstance(linear, PlainLinear):
            return linear
        kinds.append(type(linear).__name__)
        return PlainLinear(dequantized(linear).to(loader.dtype))

    monkeypatch.setattr(WeightLoader, "_linear", load_plain)
    return kinds

"""Law 1 for our own formats: what resumes from a slot, from RAM or from disk equals a cold run, bit for bit."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from torch import Tensor

from local_llm_engine.config import Dtype, Weights
from local_llm_engine.models.registry import Model
from tests.engine.models.formats import load_in, publish_sized
from tests.engine.runtime.resuming import TIERS, assert_resumed_equals_cold, cold_answer

# A stretch of more rows than the kernels for few rows take.
CHUNK = 70
# Stretches of 50, 14, 56 + 10, 1 and 39 rows follow one another.
STOPS = [50, 130, 131]
CASES: list[tuple[str, Weights, Dtype]] = [
    ("qwen3_5_text", "int4", "float32"),
    ("qwen3_5_text", "int8", "bfloat16"),
    ("qwen3_5_moe_text", "int4", "bfloat16"),
    ("llama", "int4", "bfloat16"),
    ("qwen3_moe", "int8", "float32"),
]
type Loaded = Mapping[tuple[str, Weights, Dtype], Model]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return {
        (kind, weights, dtype): load_in(
            publish_sized(tmp_path_factory.mktemp(kind), kind), weights, dtype
        )
        for kind, weights, dtype in CASES
    }


@pytest.fixture(scope="module")
def cold(models: Loaded) -> Mapping[tuple[str, Weights, Dtype], list[Tensor]]:
    return {case: cold_answer(model, CHUNK) for case, model in models.items()}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_resumed_equals_cold_bit_for_bit(
    tmp_path: Path,
    models: Loaded,
    cold: Mapping[tuple[str, Weights, Dtype], list[Tensor]],
    case: tuple[str, Weights, Dtype],
    tier: str,
    stop: int,
) -> None:
    assert_resumed_equals_cold(
        tmp_path, models[case], CHUNK, tier=tier, stop=stop, cold=cold[case]
    )

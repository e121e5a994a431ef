"""Law 1 for keys and values in 8 bits: what resumes from a slot, from RAM or from disk equals a cold run, bit for bit."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.config import Dtype, EngineConfig
from local_llm_engine.models.registry import Model, load_model
from tests.engine.models.oracles import make, publish
from tests.engine.runtime.resuming import (
    PROMPT,
    TIERS,
    TOKENS,
    assert_resumed_equals_cold,
    cold_answer,
)
from tests.engine.runtime.test_runner import Session

CHUNK = 32
STOPS = [50, 130, 131]
# Hybrid and full attention; the second dtype is the one whose reading is padded.
CASES: list[tuple[str, Dtype]] = [
    ("qwen3_5_text", "float32"),
    ("qwen3_5_text", "bfloat16"),
    ("llama", "bfloat16"),
]
type Loaded = Mapping[tuple[str, Dtype], Model]


def load(folder: Path, dtype: Dtype) -> tuple[Model, Model]:
    """The same model with keys and values in 8 bits, and in its dtype."""
    return (
        load_model(folder, EngineConfig(dtype=dtype, kv_cache="int8")),
        load_model(folder, EngineConfig(dtype=dtype)),
    )


@pytest.fixture(scope="module")
def pairs(
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[tuple[str, Dtype], tuple[Model, Model]]:
    return {
        (kind, dtype): load(
            publish(tmp_path_factory.mktemp(kind), kind, make(kind)), dtype
        )
        for kind, dtype in CASES
    }


@pytest.fixture(scope="module")
def models(pairs: Mapping[tuple[str, Dtype], tuple[Model, Model]]) -> Loaded:
    return {case: quantized for case, (quantized, _) in pairs.items()}


@pytest.fixture(scope="module")
def cold(models: Loaded) -> Mapping[tuple[str, Dtype], list[Tensor]]:
    return {case: cold_answer(model, CHUNK) for case, model in models.items()}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_resumed_equals_cold_bit_for_bit(
    tmp_path: Path,
    models: Loaded,
    cold: Mapping[tuple[str, Dtype], list[Tensor]],
    case: tuple[str, Dtype],
    tier: str,
    stop: int,
) -> None:
    assert_resumed_equals_cold(
        tmp_path, models[case], CHUNK, tier=tier, stop=stop, cold=cold[case]
    )


@torch.inference_mode()
def scores(model: Model, stretches: list[int]) -> Tensor:
    """Read all tokens in stretches of these lengths; the scores of each one's next, as logarithms."""
    state = model.new_state(len(TOKENS))
    rows = [
        model.logits(model.forward(part, state))
        for part in torch.tensor(TOKENS, device=model.device).split(stretches)
    ]
    return torch.cat(rows).log_softmax(-1).cpu()


def divergence(expected: Tensor, own: Tensor) -> float:
    return float((expected.exp() * (expected - own)).sum(-1).mean())


AT_ONCE = [190]
ONE_BY_ONE = [100, *[1] * 90]


@pytest.mark.parametrize("stretches", [AT_ONCE, ONE_BY_ONE], ids=["reading", "writing"])
@pytest.mark.parametrize("kind", ["qwen3_5_text", "llama", "qwen2"])
def test_8_bits_cost_no_more_than_bfloat16_does(
    tmp_path: Path, kind: str, stretches: list[int]
) -> None:
    """Measured against exact arithmetic; some of these models have heads of 10 channels, the worst case."""
    folder = publish(tmp_path, kind, make(kind))
    exact_quantized, exact = load(folder, "float32")
    rounded_quantized, rounded = load(folder, "bfloat16")
    expected = scores(exact, AT_ONCE)
    rounding = divergence(expected, scores(rounded, stretches))
    assert 0 < divergence(expected, scores(exact_quantized, stretches)) < rounding / 2
    assert divergence(expected, scores(rounded_quantized, stretches)) < 1.7 * rounding


def test_reading_equals_writing(models: Loaded) -> None:
    """A stretch at once and token by token, within a code here and there."""
    model = models["qwen3_5_text", "float32"]
    assert_close(scores(model, AT_ONCE), scores(model, ONE_BY_ONE), rtol=0, atol=3e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_equals_cpu(tmp_path: Path, models: Loaded) -> None:
    folder = publish(tmp_path, "qwen3_5_text", make("qwen3_5_text"))
    on_gpu = load_model(
        folder, EngineConfig(device="cuda", dtype="float32", kv_cache="int8")
    )
    on_cpu = models["qwen3_5_text", "float32"]
    assert_close(scores(on_gpu, ONE_BY_ONE), scores(on_cpu, AT_ONCE), rtol=0, atol=3e-3)


def test_a_kept_prompt_takes_half_but_for_the_scales(
    pairs: Mapping[tuple[str, Dtype], tuple[Model, Model]],
) -> None:
    kept = []
    for model in pairs["llama", "bfloat16"]:
        cache = PromptCache(1 << 30)
        Session(model, cache, CHUNK).answer(PROMPT)
        kept.append(cache.nbytes)
    quantized, plain = kept
    head_dim = 10
    assert quantized * 2 * head_dim == plain * (head_dim + 2)

"""Our own formats in whole models: which matrix gets which, and that a model computes what its matrices stand for."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from local_llm_engine.config import EngineConfig, Weights
from local_llm_engine.models.registry import load_model, plan_model
from local_llm_engine.models.weight_formats import RULES

from .checkpoints import random_tokens
from .formats import dequantizing, load_in, publish_sized
from .oracles import KINDS
from .test_plan import tensors_in
from .test_qwen3_5 import run

TOKENS = random_tokens(200)
# These are multiplied in bfloat16, whatever the model's dtype.
FEW_ROWS = [60, 61, 64, 76, 140, 200]


@pytest.mark.parametrize("weights", ["int4", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_computes_what_its_matrices_stand_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, weights: Weights
) -> None:
    folder = publish_sized(tmp_path, kind)
    model = load_in(folder, weights)
    kinds = dequantizing(monkeypatch)
    reference = load_in(folder, weights)
    assert (
        set(kinds)
        == {
            "int4": {"Int4Linear", "Int8Linear"},
            "int8": {"Int8Linear"},
        }[weights]
    )
    expected = run(reference, TOKENS, [100, 200])
    rounded = run(load_in(folder, weights, "bfloat16"), TOKENS, FEW_ROWS)
    tolerance = distance(rounded, expected)
    assert distance(run(model, TOKENS, FEW_ROWS), expected) < tolerance
    many_rows = distance(run(model, TOKENS, [100, 200]), expected)
    assert many_rows < (tolerance if has_experts(kind) else 1e-5)


def has_experts(kind: str) -> bool:
    """Few rows pass an expert, however many there are."""
    return "num_experts" in KINDS[kind].fields


def distance(logits: Tensor, expected: Tensor) -> float:
    return float((logits - expected).norm() / expected.norm())


@pytest.mark.parametrize("weights", ["int4", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_near_the_one_that_it_is_made_of(
    tmp_path: Path, kind: str, weights: Weights
) -> None:
    folder = publish_sized(tmp_path, kind)
    plain = run(load_in(folder, "bf16"), TOKENS, [100, 200]).log_softmax(-1)
    own = run(load_in(folder, weights), TOKENS, [100, 200]).log_softmax(-1)
    divergence = (plain.exp() * (plain - own)).sum(-1).mean()
    assert float(divergence) < {"int4": 1.5, "int8": 0.1}[weights]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("weights", ["auto", "bf16", "int8", "int4"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_take_what_the_plan_says(
    tmp_path: Path, kind: str, weights: Weights, dtype: Any
) -> None:
    folder = publish_sized(tmp_path, kind)
    config = EngineConfig(dtype=dtype, weights=weights)
    model = load_model(folder, config)
    tensors = {tensor.data_ptr(): tensor for tensor in tensors_in(model)}
    del tensors[model._frequencies.data_ptr()]
    plan = plan_model(folder, config)
    assert plan.weights_bytes == sum(tensor.nbytes for tensor in tensors.values())
    assert plan.weights == model.weights.format


def test_every_rule_has_a_reason_and_the_last_fits_all() -> None:
    assert all(rule.reason and rule.endings for rule in RULES)
    assert RULES[-1].endings == ("",)


def test_what_is_small_stays(tmp_path: Path) -> None:
    """Gates are computed in the model's dtype, as the checkpoint has them."""
    model = load_in(publish_sized(tmp_path, "qwen3_5_text"), "int4")
    mixer = model._layers[0]._mixer
    names = [type(linear).__name__ for linear in mixer._inward._projections._weights]
    assert names == ["Int4Linear", "Int4Linear", "PlainLinear", "PlainLinear"]
    assert type(mixer._outward).__name__ == "Int4Linear"
    assert type(model._embedding).__name__ == "Int8Linear"
    assert mixer._conv_weight.dtype == torch.float32

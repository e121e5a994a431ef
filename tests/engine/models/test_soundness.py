"""Weights that are no numbers are found when the model is loaded, in whatever format it is computed."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from local_llm_engine.config import EngineConfig, Weights
from local_llm_engine.errors import WeightFormatError
from local_llm_engine.models.registry import load_model
from local_llm_engine.models.soundness import require_numbers

from .formats import publish_sized

DAMAGED = (
    "model.embed_tokens.weight",
    "model.norm.weight",
    "model.layers.0.linear_attn.A_log",
    "model.layers.1.self_attn.o_proj.weight",
    "model.layers.2.mlp.down_proj.weight",
)


@pytest.mark.parametrize(
    ("name", "value", "weights"),
    [
        *((name, float("nan"), "auto") for name in DAMAGED),
        *((name, float("nan"), "int4") for name in DAMAGED),
        (DAMAGED[-1], float("nan"), "int8"),
        (DAMAGED[-1], float("inf"), "auto"),
        (DAMAGED[2], float("inf"), "auto"),
    ],
)
def test_what_is_no_number_is_refused(
    tmp_path: Path, name: str, value: float, weights: Weights
) -> None:
    folder = publish_sized(tmp_path, "qwen3_5_text")
    tensors = load_file(folder / "model.safetensors")
    tensors[name].view(-1)[0] = value
    save_file(tensors, folder / "model.safetensors")
    model = load_model(folder, EngineConfig(dtype="float32", weights=weights))
    with pytest.raises(WeightFormatError, match="computes no numbers"):
        require_numbers(model, model.new_state(8))


@pytest.mark.parametrize("weights", ["auto", "int4"])
def test_sound_weights_pass(tmp_path: Path, weights: Weights) -> None:
    folder = publish_sized(tmp_path, "qwen3_5_text")
    model = load_model(folder, EngineConfig(dtype="float32", weights=weights))
    require_numbers(model, model.new_state(8))

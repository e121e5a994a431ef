"""config.json: what is read, what is refused, and in which words."""

import json
from pathlib import Path
from typing import Any

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.errors import ModelLoadError, UnsupportedModelError
from local_llm_engine.models.architectures import read_config
from local_llm_engine.models.config import DeltaNetConfig, ModelConfig, RotaryConfig

from .checkpoints import TEXT_CONFIG

ROPE: dict[str, Any] = TEXT_CONFIG["rope_parameters"]


def read(folder: Path, config: object) -> ModelConfig:
    """Write a config.json of any JSON value and read it."""
    (folder / "config.json").write_text(json.dumps(config))
    return read_config(folder)


def without(name: str) -> dict[str, Any]:
    """Leave one field out."""
    return {key: value for key, value in TEXT_CONFIG.items() if key != name}


def test_text_config(tmp_path: Path) -> None:
    config = read(tmp_path, TEXT_CONFIG)
    assert config == ModelConfig(
        model_type="qwen3_5_text",
        vocab_size=97,
        hidden_size=40,
        intermediate_size=56,
        num_hidden_layers=4,
        layer_types=(
            "linear_attention",
            "full_attention",
            "linear_attention",
            "full_attention",
        ),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        rotary=RotaryConfig(dim=8, theta=10_000.0),
        delta_net=DeltaNetConfig(
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=12,
            linear_value_head_dim=20,
            linear_conv_kernel_dim=4,
        ),
        rms_norm_eps=1e-6,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    )


def test_nested_text_config(tmp_path: Path) -> None:
    nested = read(
        tmp_path,
        {
            "model_type": "qwen3_5",
            "text_config": TEXT_CONFIG,
            "vision_config": {"depth": 27},
        },
    )
    assert (nested.model_type, nested.hidden_size, nested.tie_word_embeddings) == (
        "qwen3_5",
        40,
        True,
    )


def test_built_in_model() -> None:
    config = read_config(NANO_PATH)
    assert (config.num_hidden_layers, config.rotary.dim, config.rotary.theta) == (
        6,
        32,
        10_000.0,
    )


@pytest.mark.parametrize("outer", [True, False])
def test_outer_tie_goes_first(tmp_path: Path, outer: bool) -> None:
    inner = dict(TEXT_CONFIG, tie_word_embeddings=not outer)
    config = read(
        tmp_path,
        {"model_type": "qwen3_5", "text_config": inner, "tie_word_embeddings": outer},
    )
    assert config.tie_word_embeddings is outer


@pytest.mark.parametrize(
    ("changes", "attending"),
    [({}, [3]), ({"full_attention_interval": 2}, [1, 3])],
    ids=["every fourth layer", "every second layer"],
)
def test_interval_in_place_of_layer_types(
    tmp_path: Path, changes: dict[str, Any], attending: list[int]
) -> None:
    types = read(tmp_path, without("layer_types") | changes).layer_types
    assert [
        index for index, kind in enumerate(types) if kind == "full_attention"
    ] == attending


@pytest.mark.parametrize(
    ("config", "rotary_dim"),
    [
        pytest.param(
            dict(TEXT_CONFIG, rope_parameters=dict(ROPE, partial_rotary_factor=1.0)),
            16,
            id="whole head",
        ),
        pytest.param(
            dict(
                without("rope_parameters"),
                rope_theta=10_000.0,
                partial_rotary_factor=0.5,
            ),
            8,
            id="fields outside",
        ),
        pytest.param(
            dict(without("rope_parameters"), rope_theta=10_000.0),
            4,
            id="a quarter by default",
        ),
    ],
)
def test_rotary_dim(tmp_path: Path, config: dict[str, Any], rotary_dim: int) -> None:
    assert read(tmp_path, config).rotary.dim == rotary_dim


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"model_type": "mamba"},
            "model_type is 'mamba'; known are llama, qwen2, qwen3, qwen3_5, qwen3_5_moe, ",
            id="model",
        ),
        pytest.param(
            {"hidden_act": "gelu"},
            "hidden_act is 'gelu'; supported is 'silu'",
            id="activation",
        ),
        pytest.param(
            {"output_gate_type": "tanh"},
            "output_gate_type is 'tanh'; supported is",
            id="gate",
        ),
        pytest.param(
            {"attention_bias": True},
            "attention_bias is True; supported is False",
            id="bias",
        ),
        pytest.param(
            {"attn_output_gate": False},
            "attn_output_gate is False; supported is True",
            id="no gate",
        ),
        pytest.param(
            {"quantization_config": {"quant_method": "hqq"}},
            r"the weights are quantized \('hqq'\)",
            id="quantized",
        ),
        pytest.param(
            {"rope_parameters": dict(ROPE, rope_type="yarn")},
            r"rope_parameters\.rope_type is 'yarn'; supported are 'default' and 'llama3'",
            id="yarn",
        ),
        pytest.param(
            {"rope_scaling": {"type": "linear"}},
            r"rope_scaling\.type is 'linear'",
            id="old name",
        ),
        pytest.param(
            {"layer_types": ["linear_attention", "sliding_attention"] * 2},
            "layer_types holds 'sliding_attention'; supported are linear_attention, full_attention",
            id="sliding window",
        ),
        pytest.param(
            {"layer_types": [["full_attention"]] * 4},
            "layer_types holds",
            id="nested layer type",
        ),
    ],
)
@pytest.mark.parametrize("nested", [False, True], ids=["text", "nested"])
def test_unsupported_option_is_named(
    tmp_path: Path, changes: dict[str, Any], problem: str, nested: bool
) -> None:
    changed = TEXT_CONFIG | changes
    whole = {"model_type": "qwen3_5"} | {
        key: changes[key] for key in changes.keys() & {"model_type"}
    }
    with pytest.raises(UnsupportedModelError, match=problem):
        read(tmp_path, whole | {"text_config": changed} if nested else changed)


def test_missing_text_config(tmp_path: Path) -> None:
    with pytest.raises(
        ModelLoadError, match="text_config is missing; right is an object"
    ):
        read(tmp_path, {"model_type": "qwen3_5"})


@pytest.mark.parametrize("model_type", [None, 7, ["qwen3_5"]])
def test_model_type_that_is_no_text(tmp_path: Path, model_type: object) -> None:
    with pytest.raises(ModelLoadError, match=r"model_type is .*; right is a string"):
        read(tmp_path, TEXT_CONFIG | {"model_type": model_type})

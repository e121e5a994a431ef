"""config.json of published models: the shapes that it asks for, and the options of each architecture."""

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoConfig, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from local_llm_engine.errors import ModelLoadError, UnsupportedModelError
from local_llm_engine.models.architectures import architecture_of
from local_llm_engine.models.config import ModelConfig
from local_llm_engine.models.decoder import tensor_shapes
from local_llm_engine.models.experts import follow_layout
from local_llm_engine.models.rotary import rotary_frequencies
from local_llm_engine.models.tensor_names import HEAD

from .oracles import KINDS
from .published_configs import PUBLISHED
from .test_config import read

FACTS = {
    "SmolLM2-135M": (64, 3, 64, 100_000.0),
    "Llama-3.2-1B": (64, 8, 64, 500_000.0),
    "Llama-2-7B": (128, 32, 128, 10_000.0),
    "Qwen2.5-0.5B": (64, 2, 64, 1_000_000.0),
    "Qwen3-0.6B": (128, 8, 128, 1_000_000.0),
    "Qwen3-30B-A3B": (128, 4, 128, 1_000_000.0),
    "Qwen3-Next-80B-A3B": (256, 2, 64, 10_000_000.0),
    "Qwen3.5-35B-A3B": (256, 2, 64, 10_000_000.0),
}


@pytest.fixture(autouse=True)
def poisoned_empty() -> None:
    """Leave torch as it is: it makes tensors of no memory here, which only its own functions can."""


def oracle_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Let transformers make the text model, without its numbers, and say which tensors it has."""
    text = config.get("text_config", config)
    kind = KINDS[text["model_type"]]
    with torch.device("meta"):
        oracle = kind.model(kind.config(**text))
    return {
        name.removeprefix("model."): tuple(parameter.shape)
        for name, parameter in oracle.named_parameters()
        if name != HEAD
    }


@pytest.mark.parametrize("name", PUBLISHED)
def test_tensors_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    """Names and shapes, with all experts of a layer in one tensor as transformers has them in memory."""
    config = read(tmp_path, PUBLISHED[name])
    fused = ["layers.0.mlp.experts.gate_up_proj"]
    config = follow_layout(config, fused, "")
    shapes = tensor_shapes(architecture_of(config), config)
    assert shapes == oracle_shapes(PUBLISHED[name])


@pytest.mark.parametrize("name", PUBLISHED)
def test_heads_and_rotation(tmp_path: Path, name: str) -> None:
    config = read(tmp_path, PUBLISHED[name])
    rotary = config.rotary
    assert (
        config.head_dim,
        config.num_key_value_heads,
        rotary.dim,
        rotary.theta,
    ) == FACTS[name]


@pytest.mark.parametrize("num_experts", [128, 512])
def test_separate_experts_are_as_many_tensors(tmp_path: Path, num_experts: int) -> None:
    """Three for each, and as many numbers as in two for all."""
    published = {**PUBLISHED["Qwen3-Next-80B-A3B"], "num_experts": num_experts}
    config = read(tmp_path, published)
    separate = tensor_shapes(architecture_of(config), config)
    assert sum(".experts." in name for name in separate) == 48 * num_experts * 3
    fused = follow_layout(config, ["layers.0.mlp.experts.gate_up_proj"], "")
    together = tensor_shapes(architecture_of(fused), fused)
    assert num_numbers(separate) == num_numbers(together)


def num_numbers(shapes: dict[str, tuple[int, ...]]) -> int:
    return sum(torch.Size(shape).numel() for shape in shapes.values())


def test_frequencies_of_a_stretched_embedding(tmp_path: Path) -> None:
    published = PUBLISHED["Llama-3.2-1B"]
    computed = rotary_frequencies(read(tmp_path, published).rotary)
    oracle: Any = LlamaRotaryEmbedding(LlamaConfig(**published))
    assert_close(computed, oracle.inv_freq, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("name", ["Llama-3.2-1B", "SmolLM2-135M"])
def test_older_and_newer_form_are_one_configuration(tmp_path: Path, name: str) -> None:
    """What transformers makes of an older file says the same."""
    older = read(tmp_path, PUBLISHED[name])
    AutoConfig.from_pretrained(tmp_path).save_pretrained(tmp_path)
    newer = json.loads((tmp_path / "config.json").read_text())
    assert "rope_parameters" in newer
    assert read(tmp_path, newer) == older


def test_number_of_experts_by_its_newer_name(tmp_path: Path) -> None:
    published = dict(PUBLISHED["Qwen3-30B-A3B"])
    published["num_local_experts"] = published.pop("num_experts")
    experts = read(tmp_path, published).experts
    assert experts is not None
    assert experts.num_experts == 128


@pytest.mark.parametrize(
    ("changes", "sparse"),
    [
        ({}, list(range(48))),
        ({"mlp_only_layers": None}, list(range(48))),
        ({"mlp_only_layers": [0, 47]}, list(range(1, 47))),
        ({"decoder_sparse_step": 16}, [15, 31, 47]),
        ({"decoder_sparse_step": 16, "mlp_only_layers": [31]}, [15, 47]),
    ],
    ids=["all", "no list", "but two", "every sixteenth", "every sixteenth but one"],
)
def test_sparse_layers(
    tmp_path: Path, changes: dict[str, Any], sparse: list[int]
) -> None:
    config = read(tmp_path, {**PUBLISHED["Qwen3-30B-A3B"], **changes})
    assert config.experts is not None
    assert sorted(config.experts.sparse_layers) == sparse
    assert (config.intermediate_size is None) is (len(sparse) == 48)


ROPE = PUBLISHED["Llama-3.2-1B"]["rope_scaling"]
UNSUPPORTED = [
    pytest.param(
        "Qwen2.5-0.5B",
        {"use_sliding_window": True},
        "use_sliding_window is True; supported is False",
        id="sliding window",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"use_sliding_window": True},
        "use_sliding_window is True; supported is False",
        id="sliding window of qwen3",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"layer_types": ["sliding_attention"] * 28},
        "layer_types holds 'sliding_attention'; supported are full_attention",
        id="sliding layers",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"layer_types": ["linear_attention"] * 16},
        "layer_types holds 'linear_attention'; supported are full_attention",
        id="linear layers",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"rope_scaling": {**ROPE, "rope_type": "dynamic"}},
        r"rope_scaling\.rope_type is 'dynamic'; supported are 'default' and 'llama3'",
        id="dynamic rope",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        r"rope_scaling\.type is 'yarn'; supported are 'default' and 'llama3'",
        id="yarn",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"hidden_act": "relu"},
        "hidden_act is 'relu'; supported is 'silu'",
        id="activation",
    ),
    pytest.param(
        "Qwen3-Next-80B-A3B",
        {"attention_bias": True},
        "attention_bias is True; supported is False",
        id="bias",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"quantization_config": {"quant_method": "hqq"}},
        r"the weights are quantized \('hqq'\)",
        id="quantized",
    ),
    pytest.param(
        "Qwen3.5-35B-A3B",
        {"model_type": "qwen3_5"},
        r"text_config\.model_type is 'qwen3_5_moe_text'; supported is 'qwen3_5_text'",
        id="text model of another kind",
    ),
    pytest.param(
        "SmolLM2-135M",
        {"model_type": "mistral"},
        "model_type is 'mistral'; known are llama, qwen2, qwen3, qwen3_5, qwen3_5_moe, qwen3_5_moe_text, "
        "qwen3_5_text, qwen3_moe, qwen3_next$",
        id="model",
    ),
]  # fmt: skip
WRONG = [
    pytest.param(
        "Qwen3-30B-A3B",
        {"num_experts": None},
        "num_experts is None; right is a whole number from 1",
        id="no experts",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"num_experts_per_tok": 129},
        "num_experts_per_tok is 129; right is a whole number from 1 to 128",
        id="more than there are",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"num_experts": 10**9},
        "num_experts is 1000000000; right is a whole number from 1 to 65536",
        id="a billion experts",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"mlp_only_layers": ["0"]},
        r"mlp_only_layers is \['0'\]; right is a list of indices of layers",
        id="layers in words",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"mlp_only_layers": 3},
        "mlp_only_layers is 3; right is a list of indices of layers",
        id="one layer",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"decoder_sparse_step": 0},
        "decoder_sparse_step is 0; right is a whole number from 1",
        id="step of nothing",
    ),
    pytest.param(
        "Qwen3-Next-80B-A3B",
        {"shared_expert_intermediate_size": None},
        "shared_expert_intermediate_size is None; right is a whole number",
        id="no shared expert",
    ),
    pytest.param(
        "Qwen2.5-0.5B",
        {"num_attention_heads": 13},
        "hidden_size is 896; right is a multiple of num_attention_heads, which is 13",
        id="heads that do not divide",
    ),
    pytest.param(
        "Qwen2.5-0.5B",
        {"num_key_value_heads": None},
        "num_key_value_heads is None; right is a whole number",
        id="key heads",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"num_hidden_layers": 10**6},
        "num_hidden_layers is 1000000; right is",
        id="a million layers",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"rope_scaling": {**ROPE, "high_freq_factor": 1.0}},
        r"rope_scaling\.high_freq_factor is 1\.0; right is a number above low_freq_factor, 1\.0",
        id="no room between",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"rope_scaling": {**ROPE, "factor": 0.5}},
        r"rope_scaling\.factor is 0\.5; right is a number above 0, from 1\.0",
        id="shrinking",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {
            "rope_scaling": {
                key: ROPE[key]
                for key in ROPE
                if key != "original_max_position_embeddings"
            }
        },
        r"rope_scaling\.original_max_position_embeddings is missing",
        id="stretched from nowhere",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"rope_theta": None},
        "rope_theta is None; right is a number above 0",
        id="no theta",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"attention_bias": 1},
        "attention_bias is 1; right is true or false",
        id="bias in numbers",
    ),
]


@pytest.mark.parametrize(("name", "changes", "problem"), UNSUPPORTED)
def test_unsupported_option_is_named(
    tmp_path: Path, name: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=problem):
        read(tmp_path, {**PUBLISHED[name], **changes})


@pytest.mark.parametrize(("name", "changes", "problem"), WRONG)
def test_wrong_field_is_named(
    tmp_path: Path, name: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ModelLoadError, match=problem):
        read(tmp_path, {**PUBLISHED[name], **changes})


def test_smallest_configuration_of_the_first_llamas(tmp_path: Path) -> None:
    """Neither key heads nor the rotary embedding are spelled out there."""
    config: ModelConfig = read(tmp_path, PUBLISHED["Llama-2-7B"])
    assert (config.num_key_value_heads, config.rotary.theta) == (32, 10_000.0)

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


def test_smallest_configuration_of_the_first_llamas(tmp_path: Path) -> None:
    """Neither key heads nor the rotary embedding are spelled out there."""
    config: ModelConfig = read(tmp_path, PUBLISHED["Llama-2-7B"])
    assert (config.num_key_value_heads, config.rotary.theta) == (32, 10_000.0)

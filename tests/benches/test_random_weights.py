"""A folder of random weights is a model that the engine loads."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.architectures import read_config
from local_llm_engine.models.registry import load_model
from local_llm_engine.service import Engine
from local_llm_engine.types import ChatRequest, Message, ToolSpec
from scripts.benches import random_weights
from scripts.benches.state_sizes import StateSizes, empty_state

SMALL_EXPERTS = random_weights._Experts(
    num_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=16,
    shared_expert_intermediate_size=16,
)


@pytest.fixture(
    params=[("0.8B", 64), ("1.7B-A0.7B", SMALL_EXPERTS)], ids=["dense", "experts"]
)
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """A folder with a model of the architecture's form, but small."""
    size, feed_forward = request.param
    small = replace(
        random_weights._SHAPES[size],
        num_layers=4,
        hidden_size=32,
        feed_forward=feed_forward,
    )
    monkeypatch.setitem(random_weights._SHAPES, size, small)
    return random_weights.random_model(size, tmp_path)


def test_it_loads_and_computes(folder: Path) -> None:
    assert Engine.check(folder).vocab_size == 248_320
    model = load_model(folder, EngineConfig(dtype="float32"))
    hidden = model.forward(torch.arange(63), model.new_state(63))
    assert hidden.shape == (63, 32)
    assert hidden.isfinite().all()
    assert hidden.std() > 0


def test_it_is_written_once(folder: Path) -> None:
    written = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    size = folder.name.removeprefix("random-")
    assert random_weights.random_model(size, folder.parent) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == written


def test_the_prompt_spells_the_tools_out(folder: Path) -> None:
    request = ChatRequest(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="Hello"),
        ),
        tools=(ToolSpec(name="a_lamp", description="Turns on."),),
    )
    segments = ChatFormat.load(folder).prepare(request).segments
    assert [segment.name for segment in segments][:2] == ["tools", "system"]


@pytest.mark.parametrize("size", random_weights.SIZES)
def test_every_size_has_a_configuration(size: str) -> None:
    assert random_weights.config_of(size)["num_hidden_layers"] % 4 == 0


def test_state_sizes_are_those_of_the_model() -> None:
    config = read_config(NANO_PATH)
    state = load_model(NANO_PATH, EngineConfig(dtype="float32")).new_state(7)
    sizes = StateSizes.of(config, torch.float32)
    assert sizes.checkpoint_bytes == state.checkpoint_nbytes
    assert sizes.token_bytes * 7 == state.read_kv(0, 7).nbytes
    assert [type(layer) for layer in state.layers] == [
        type(layer) for layer in empty_state(config, 7, torch.float32).layers
    ]

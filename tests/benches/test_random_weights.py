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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model of the architecture's form, but small."""
    small = replace(
        random_weights._SHAPES["0.8B"],
        num_layers=4,
        hidden_size=32,
        intermediate_size=64,
    )
    monkeypatch.setitem(random_weights._SHAPES, "0.8B", small)
    return random_weights.random_model("0.8B", tmp_path)


def test_it_loads_and_computes(folder: Path) -> None:
    assert Engine.check(folder).vocab_size == 248_320
    model = load_model(folder, EngineConfig(dtype="float32"))
    hidden = model.forward(torch.arange(63), model.new_state(63))
    assert hidden.shape == (63, 32)
    assert hidden.isfinite().all()
    assert hidden.std() > 0


def test_it_is_written_once(folder: Path) -> None:
    written = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert random_weights.random_model("0.8B", folder.parent) == folder
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

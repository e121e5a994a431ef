"""The plan says what a loaded model really takes, byte for byte."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.state import DeltaState, SequenceState
from local_llm_engine.config import EngineConfig, KvCache
from local_llm_engine.errors import MemoryShortageError, ModelLoadError
from local_llm_engine.models.memory import DeviceMemory
from local_llm_engine.models.plan import EnginePlan
from local_llm_engine.models.registry import load_model, plan_model
from local_llm_engine.weights.runtime_matrix import Int4Layout

from .checkpoints import TEXT_CONFIG, make_oracle, tensors_of, write_checkpoint
from .oracles import KINDS, make, publish

BIASES = {
    "llama": {"attention_bias": True, "mlp_bias": True},
    "qwen3": {"attention_bias": True},
}
DTYPES = ("bfloat16", "float32")


@pytest.fixture(
    scope="module", params=["tied", "untied", "tied with a head", "nano", *KINDS]
)
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A model's folder; the head is tied to the embedding, stands by itself, or is both tied and there."""
    if request.param == "nano":
        return NANO_PATH
    tmp_path = tmp_path_factory.mktemp("models")
    if request.param in KINDS:
        return publish(
            tmp_path, request.param, make(request.param, BIASES.get(request.param))
        )
    config = {**TEXT_CONFIG, "tie_word_embeddings": request.param != "untied"}
    tensors = tensors_of(make_oracle(config))
    if request.param == "tied with a head":
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    return write_checkpoint(tmp_path / "toy", tensors, config)


OURS = ("local_llm_engine.models", "local_llm_engine.weights.linear")


def tensors_in(thing: object) -> Iterator[Tensor]:
    """All tensors that an object of our own holds, however deep."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from tensors_in(part)
    elif type(thing).__module__.startswith(OURS):
        yield from tensors_in(list(getattr(thing, "__dict__", {}).values()))


def state_nbytes(state: SequenceState) -> int:
    return sum(
        tensor.nbytes
        for layer in state.layers
        for tensor in (
            (layer.conv, layer.delta)
            if isinstance(layer, DeltaState)
            else layer.tensors
        )
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("half", [False, True], ids=["exact", "half"])
@pytest.mark.parametrize("kv_cache", ["bf16", "int8"])
def test_states_take_what_the_plan_says(
    folder: Path, dtype: Any, half: bool, kv_cache: KvCache
) -> None:
    config = EngineConfig(
        dtype=dtype, context_length=1000, half_checkpoints=half, kv_cache=kv_cache
    )
    plan = plan_model(folder, config)
    assert (
        plan_model(folder, replace(config, kv_cache="bf16")).with_kv_cache(kv_cache)
        == plan
    )
    state = load_model(folder, config).new_state(1000)
    assert plan.slots_bytes == 3 * state_nbytes(state)
    assert plan.state.recurrent == state.checkpoint_nbytes
    assert plan.state.checkpoint == state.checkpoint(half=half).nbytes
    assert plan.kv_bytes_per_1000_tokens == state.read_kv(0, 1000).nbytes


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_take_what_the_plan_says(folder: Path, dtype: Any) -> None:
    config = EngineConfig(dtype=dtype)
    model = load_model(folder, config)
    tensors = {tensor.data_ptr(): tensor for tensor in tensors_in(model)}
    frequencies = tensors.pop(model._frequencies.data_ptr())
    assert frequencies.nbytes < 1000
    held = sum(tensor.nbytes for tensor in tensors.values())
    assert plan_model(folder, config).weights_bytes == held


@pytest.mark.parametrize(
    ("kind", "changes", "part"),
    [
        ("llama", {"tie_word_embeddings": True}, {}),
        ("llama", {"tie_word_embeddings": False}, {"embed_tokens": 1.0}),
        (
            "qwen3_moe",
            {"num_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": True},
            {".experts.": 0.75},
        ),
    ],
    ids=["tied", "untied", "experts"],
)
def test_a_token_reads_all_weights_but_other_tokens_rows_and_experts(
    tmp_path: Path, kind: str, changes: dict[str, Any], part: dict[str, float]
) -> None:
    """`part` is what of the tensors whose names have this in them is not read."""
    oracle = make(kind, changes)
    plan = plan_model(publish(tmp_path, kind, oracle), EngineConfig(dtype="float32"))
    need = plan.weights_by_choice["bf16"]
    left = sum(
        tensor.numel() * 4 * share
        for name, tensor in oracle.named_parameters()
        for words, share in part.items()
        if words in name
    )
    assert need.nbytes == plan.weights_bytes
    assert need.nbytes - need.bytes_a_token == left


def test_whether_int4_is_slow_here_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_kernel in (True, False):
        layout = Int4Layout(block=64, has_kernel=has_kernel)
        monkeypatch.setattr(Int4Layout, "of", lambda device, own=layout: own)
        assert plan_of_nano().is_int4_slow is not has_kernel


def test_bfloat16_weights_double_where_the_device_computes_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {
        name: tensor.bfloat16() for name, tensor in tensors_of(make_oracle()).items()
    }
    folder = write_checkpoint(tmp_path / "toy", tensors)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    plan = plan_model(folder, EngineConfig())
    assert plan.dtype == "float32"
    assert plan.weights_bytes == 2 * plan.model.weights_bytes


def plan_of_nano(**settings: Any) -> EnginePlan:
    return plan_model(NANO_PATH, EngineConfig(dtype="float32", **settings))


def test_context_length_is_bounded_by_the_model() -> None:
    assert plan_of_nano().context_length == 16_384
    assert plan_of_nano(context_length=4096).context_length == 4096
    assert plan_of_nano(context_length=10**9).context_length == 32_768


def test_on_a_cpu_all_lies_in_ram() -> None:
    plan = plan_of_nano(prompt_cache_bytes=1000)
    assert plan.device_bytes == plan.weights_bytes + plan.slots_bytes
    assert plan.ram_bytes == plan.device_bytes + 1000


def test_on_a_gpu_only_the_cache_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    plan = plan_of_nano(device="cuda", prompt_cache_bytes=1000)
    assert plan.device == "cuda"
    assert plan.ram_bytes == 1000


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelLoadError, match="cuda is not available"):
        plan_of_nano(device="cuda")


def test_8_bits_are_half_of_16_but_for_the_scales() -> None:
    plain = plan_model(NANO_PATH, EngineConfig(dtype="bfloat16"))
    quantized = plain.with_kv_cache("int8")
    head_dim = 64
    assert quantized.state.token * 2 * head_dim == plain.state.token * (head_dim + 2)
    assert quantized.longest_context(plain.device_bytes) > 1.8 * plain.context_length


def test_each_satellite_costs_a_checkpoint_and_its_own_lines() -> None:
    plan = plan_of_nano()
    costs = [plan.satellites_bytes(count) for count in (0, 1, 5)]
    one = plan.state.checkpoint + 100 * plan.state.token
    assert costs[1] - costs[0] == one
    assert costs[2] - costs[0] == 5 * one


def test_what_is_too_long_is_refused_with_what_would_fit() -> None:
    plan = plan_of_nano(context_length=8192)
    total = plan.device_bytes
    plan.require_room(DeviceMemory(total, 0))
    with pytest.raises(MemoryShortageError, match="context length of 8191"):
        plan.require_room(DeviceMemory(total - 1, 0))
    longest = plan.longest_context(total - 1)
    plan_of_nano(context_length=longest).require_room(DeviceMemory(total - 1, 0))


def test_the_longest_context_is_the_models_own_at_most() -> None:
    plan = plan_of_nano()
    assert plan.longest_context(1 << 50) == 32_768
    assert plan.longest_context(plan.weights_bytes) == 0

"""Qwen3.5 against transformers: whole, split anywhere, token by token, resumed, in both dtypes."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import Qwen3_5ForCausalLM

from local_llm_engine.cache.state import DeltaState, SequenceState
from local_llm_engine.config import Device, Dtype, EngineConfig
from local_llm_engine.errors import GenerationError
from local_llm_engine.models.registry import Model, load_model

from .checkpoints import (
    TEXT_CONFIG,
    make_oracle,
    random_tokens,
    tensors_of,
    write_checkpoint,
)

CAPACITY = 256
LENGTHS = [1, 2, 63, 64, 65, 200]
ROPE: Mapping[str, Any] = TEXT_CONFIG["rope_parameters"]
VARIANTS = [
    pytest.param({}, id="grouped heads, tied head"),
    pytest.param({"tie_word_embeddings": False}, id="separate head"),
    pytest.param({"linear_num_key_heads": 4}, id="one value head a key head"),
    pytest.param({"linear_num_key_heads": 1}, id="four value heads a key head"),
    pytest.param({"num_key_value_heads": 4}, id="one query head a key head"),
    pytest.param({"num_key_value_heads": 1}, id="four query heads a key head"),
    pytest.param(
        {"rope_parameters": {**ROPE, "partial_rotary_factor": 0.25}},
        id="a quarter is turned",
    ),
    pytest.param(
        {"rope_parameters": {**ROPE, "partial_rotary_factor": 1.0}}, id="all is turned"
    ),
    pytest.param(
        {"head_dim": 24, "linear_conv_kernel_dim": 3}, id="head of 24, kernel of 3"
    ),
    pytest.param({"layer_types": ["linear_attention"] * 4}, id="no attention"),
    pytest.param({"layer_types": ["full_attention"] * 4}, id="attention only"),
]


def load(
    folder: Path,
    oracle: Qwen3_5ForCausalLM,
    *,
    dtype: Dtype = "float32",
    device: Device = "cpu",
) -> Model:
    """Write the oracle down and load it with the engine."""
    config = {name: getattr(oracle.config, name) for name in TEXT_CONFIG}
    write_checkpoint(folder, tensors_of(oracle), config)
    return load_model(folder, EngineConfig(dtype=dtype, device=device))


def run(
    model: Model,
    tokens: Tensor,
    stops: Iterable[int],
    state: SequenceState | None = None,
) -> Tensor:
    """Read tokens from where the state is, in stretches that end at `stops`; return all their logits."""
    state = model.new_state(CAPACITY) if state is None else state
    bounds = [state.length, *stops]
    return torch.cat(
        [
            model.logits(model.forward(tokens[start:end], state))
            for start, end in pairwise(bounds)
        ]
    )


@pytest.fixture(scope="module")
def oracle() -> Qwen3_5ForCausalLM:
    return make_oracle()


@pytest.fixture(scope="module")
def model(
    oracle: Qwen3_5ForCausalLM, tmp_path_factory: pytest.TempPathFactory
) -> Model:
    return load(tmp_path_factory.mktemp("model"), oracle)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("num_tokens", LENGTHS)
def test_prefill_equals_oracle(
    model: Model, oracle: Qwen3_5ForCausalLM, num_tokens: int, attention: str
) -> None:
    oracle.set_attn_implementation(attention)
    tokens = random_tokens(num_tokens)
    assert_close(
        run(model, tokens, [num_tokens]),
        oracle(tokens[None], use_cache=False).logits[0],
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("changes", VARIANTS)
def test_variants_equal_oracle(tmp_path: Path, changes: dict[str, Any]) -> None:
    oracle = make_oracle({**TEXT_CONFIG, **changes})
    model = load(tmp_path, oracle)
    tokens = random_tokens(70)
    expected = oracle(tokens[None], use_cache=False).logits[0]
    assert_close(run(model, tokens, [70]), expected, rtol=1e-4, atol=1e-4)
    assert_close(
        run(model, tokens, [3, 4, 5, 68, 69, 70]), expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("num_tokens", LENGTHS)
def test_decode_equals_prefill(model: Model, num_tokens: int) -> None:
    tokens = random_tokens(num_tokens)
    one_by_one = run(model, tokens, range(1, num_tokens + 1))
    assert_close(one_by_one, run(model, tokens, [num_tokens]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("split", [1, 2, 3, 4, 63, 64, 65, 128, 198, 199])
def test_split_anywhere_equals_whole(model: Model, split: int) -> None:
    tokens = random_tokens(200)
    assert_close(
        run(model, tokens, [split, 200]),
        run(model, tokens, [200]),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("rest", [1, 2, 3, 63, 64, 65])
@pytest.mark.parametrize("stop", [1, 2, 63, 64, 65, 130])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_resume_equals_cold(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, dtype: Dtype, stop: int, rest: int
) -> None:
    model = load(tmp_path, oracle, dtype=dtype)
    tokens = random_tokens(stop + rest)
    state = model.new_state(CAPACITY)
    run(model, tokens, [stop], state)
    checkpoint, kv = state.checkpoint(), state.read_kv(0, stop)
    cold = run(model, tokens, [stop + rest], state)

    resumed_state = model.new_state(CAPACITY + 100)
    run(model, random_tokens(150).flip(0), [150], resumed_state)
    resumed_state.reset()
    resumed_state.write_kv(0, kv)
    resumed_state.restore(checkpoint)
    assert torch.equal(run(model, tokens, [stop + rest], resumed_state), cold)


def test_resume_token_by_token_equals_cold(model: Model) -> None:
    tokens = random_tokens(100)
    state = model.new_state(CAPACITY)
    run(model, tokens, [65], state)
    checkpoint, kv = state.checkpoint(), state.read_kv(0, 65)
    cold = run(model, tokens, range(66, 101), state)
    state.write_kv(0, kv)
    state.restore(checkpoint)
    assert torch.equal(run(model, tokens, range(66, 101), state), cold)


def test_checkpoint_is_not_written_by_going_on(model: Model) -> None:
    tokens = random_tokens(100)
    state = model.new_state(CAPACITY)
    run(model, tokens, [64], state)
    checkpoint = state.checkpoint()
    before = [tensor.clone() for tensor in (*checkpoint.conv, *checkpoint.delta)]
    state.restore(checkpoint)
    run(model, tokens, [*range(65, 80), 100], state)
    assert all(
        map(torch.equal, (*checkpoint.conv, *checkpoint.delta), before, strict=True)
    )


def test_same_stops_give_same_bits(model: Model) -> None:
    tokens = random_tokens(200)
    assert torch.equal(
        run(model, tokens, [7, 71, 200]), run(model, tokens, [7, 71, 200])
    )


@pytest.mark.parametrize(
    "stops", [[130], range(1, 131)], ids=["whole", "token by token"]
)
def test_bfloat16_within_rounding(tmp_path: Path, stops: Iterable[int]) -> None:
    rounded = make_oracle().bfloat16()
    exact = make_oracle()
    exact.load_state_dict(rounded.state_dict())
    model = load(tmp_path, rounded, dtype="bfloat16")
    tokens = random_tokens(130)
    expected = exact(tokens[None]).logits[0]
    published = rounded(tokens[None]).logits[0].float()
    error = (run(model, tokens, stops) - expected).square().mean().sqrt()
    assert error < 1.2 * (published - expected).square().mean().sqrt()


@pytest.mark.parametrize("stops", [[65], [64, 65]], ids=["chunked", "recurrent"])
def test_memory_is_float32_in_bfloat16_runs(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, stops: list[int]
) -> None:
    model = load(tmp_path, oracle, dtype="bfloat16")
    state = model.new_state(CAPACITY)
    run(model, random_tokens(65), stops, state)
    memories = [layer.delta for layer in state.layers if isinstance(layer, DeltaState)]
    assert all(memory.dtype == torch.float32 for memory in memories)
    assert all((memory != memory.bfloat16().float()).any() for memory in memories)


@pytest.mark.parametrize("num_tokens", [0, 11], ids=["no token", "one too many"])
def test_tokens_that_do_not_fit_leave_the_state_alone(
    model: Model, num_tokens: int
) -> None:
    state = model.new_state(20)
    run(model, random_tokens(10), [10], state)
    checkpoint = state.checkpoint()
    with pytest.raises(GenerationError, match="room for 10 more"):
        model.forward(random_tokens(num_tokens), state)
    assert state.length == 10
    assert all(
        map(torch.equal, state.checkpoint().delta, checkpoint.delta, strict=True)
    )


def test_state_can_be_filled_to_the_brim(model: Model) -> None:
    tokens = random_tokens(20)
    assert_close(
        run(model, tokens, [19, 20], model.new_state(20)),
        run(model, tokens, [20]),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-3), ("bfloat16", 2e-1)]
)
def test_cuda_equals_cpu(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, dtype: Dtype, tolerance: float
) -> None:
    tokens = random_tokens(200)
    stops = [1, 65, 198, 199, 200]
    on_cpu = load(tmp_path, oracle, dtype=dtype)
    on_gpu = load(tmp_path, oracle, dtype=dtype, device="cuda")
    computed = run(on_gpu, tokens.cuda(), stops)
    assert_close(
        computed.cpu(), run(on_cpu, tokens, stops), rtol=tolerance, atol=tolerance
    )
    assert torch.equal(run(on_gpu, tokens.cuda(), stops), computed)

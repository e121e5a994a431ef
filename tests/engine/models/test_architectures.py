"""Every architecture against transformers: whole, split anywhere, token by token, resumed, in both dtypes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model

from .checkpoints import FLOAT32, random_tokens
from .oracles import KINDS, LLAMA3_ROPE, make, publish
from .test_qwen3_5 import CAPACITY, run

# Qwen3.5 without experts has a file of tests of its own.
NEW_KINDS = [kind for kind in KINDS if kind != "qwen3_5_text"]
VARIANTS = [
    pytest.param("llama", {"tie_word_embeddings": True}, id="llama-tied"),
    pytest.param("llama", {"num_key_value_heads": 4}, id="llama-one query head a key head"),
    pytest.param("llama", {"num_key_value_heads": 1}, id="llama-four query heads a key head"),
    pytest.param("llama", {"attention_bias": True, "mlp_bias": True}, id="llama-every bias"),
    pytest.param("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}, id="llama-default rope"),
    pytest.param("llama", {"rope_parameters": {**LLAMA3_ROPE, "factor": 32.0}}, id="llama-stretched 32 times"),
    pytest.param("llama", {"head_dim": 24}, id="llama-head of 24"),
    pytest.param("qwen2", {"tie_word_embeddings": True}, id="qwen2-tied"),
    pytest.param("qwen2", {"num_key_value_heads": 1}, id="qwen2-four query heads a key head"),
    pytest.param("qwen3", {"tie_word_embeddings": True}, id="qwen3-tied"),
    pytest.param("qwen3", {"attention_bias": True}, id="qwen3-bias"),
    pytest.param("qwen3", {"num_key_value_heads": 4}, id="qwen3-one query head a key head"),
    pytest.param("qwen3_moe", {"norm_topk_prob": False}, id="qwen3_moe-plain weights"),
    pytest.param("qwen3_moe", {"mlp_only_layers": [], "decoder_sparse_step": 2}, id="qwen3_moe-every second layer"),
    pytest.param("qwen3_moe", {"mlp_only_layers": None, "num_experts_per_tok": 1}, id="qwen3_moe-one expert"),
    pytest.param("qwen3_moe", {"num_experts_per_tok": 7}, id="qwen3_moe-all experts"),
    pytest.param("qwen3_next", {"norm_topk_prob": False}, id="qwen3_next-plain weights"),
    pytest.param("qwen3_next", {"tie_word_embeddings": False}, id="qwen3_next-separate head"),
    pytest.param("qwen3_next", {"linear_num_key_heads": 4}, id="qwen3_next-one value head a key head"),
    pytest.param("qwen3_next", {"linear_num_key_heads": 1}, id="qwen3_next-four value heads a key head"),
    pytest.param("qwen3_next", {"layer_types": ["linear_attention"] * 4}, id="qwen3_next-no attention"),
    pytest.param("qwen3_5_moe_text", {"num_experts_per_tok": 1}, id="qwen3_5_moe-one expert"),
    pytest.param("qwen3_5_moe_text", {"tie_word_embeddings": False}, id="qwen3_5_moe-separate head"),
]  # fmt: skip


@pytest.fixture(scope="module")
def oracles() -> Mapping[str, Any]:
    return {kind: make(kind) for kind in NEW_KINDS}


@pytest.fixture(scope="module")
def folders(
    oracles: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Path]:
    return {
        kind: publish(tmp_path_factory.mktemp(kind), kind, oracle)
        for kind, oracle in oracles.items()
    }


@pytest.fixture(scope="module")
def models(folders: Mapping[str, Path]) -> Mapping[str, Model]:
    return {kind: load_model(folder, FLOAT32) for kind, folder in folders.items()}


def logits_of(oracle: Any, tokens: Tensor) -> Tensor:
    logits: Tensor = oracle(tokens[None], use_cache=False).logits[0].float()
    return logits


@pytest.mark.parametrize("num_tokens", [1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("kind", NEW_KINDS)
def test_prefill_equals_oracle(
    models: Mapping[str, Model], oracles: Mapping[str, Any], kind: str, num_tokens: int
) -> None:
    tokens = random_tokens(num_tokens)
    computed = run(models[kind], tokens, [num_tokens])
    assert_close(computed, logits_of(oracles[kind], tokens), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_tokens", [1, 2, 65, 200])
@pytest.mark.parametrize("kind", NEW_KINDS)
def test_the_last_row_alone_is_that_of_all(
    models: Mapping[str, Model], kind: str, num_tokens: int
) -> None:
    tokens, model = random_tokens(num_tokens), models[kind]
    states = [model.new_state(num_tokens + 1) for _ in range(2)]
    rows = model.forward(tokens, states[0])
    last = model.forward(tokens, states[1], only_last=True)
    assert last.shape == (1, rows.shape[1])
    assert_close(last, rows[-1:], rtol=1e-5, atol=1e-5)
    # What comes after reads the same state.
    after = [model.forward(tokens[:1], state) for state in states]
    assert torch.equal(*after)


@pytest.mark.parametrize(("kind", "changes"), VARIANTS)
def test_variants_equal_oracle(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    oracle = make(kind, changes)
    model = load_model(publish(tmp_path, kind, oracle), FLOAT32)
    tokens = random_tokens(70)
    expected = logits_of(oracle, tokens)
    for stops in ([70], [3, 4, 5, 68, 69, 70]):
        assert_close(run(model, tokens, stops), expected, rtol=3e-4, atol=3e-4)


@pytest.mark.parametrize(
    "stops",
    [
        *([split, 130] for split in (1, 2, 3, 63, 64, 65, 128, 129)),
        range(1, 131),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", NEW_KINDS)
def test_split_anywhere_equals_whole(
    models: Mapping[str, Model], kind: str, stops: Iterable[int]
) -> None:
    tokens = random_tokens(130)
    whole = run(models[kind], tokens, [130])
    assert_close(run(models[kind], tokens, stops), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", NEW_KINDS)
def test_greedy_tokens_equal_oracle(
    models: Mapping[str, Model], oracles: Mapping[str, Any], kind: str, seed: int
) -> None:
    """Sixty-four tokens after prompts of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.randint(97, (11 + 40 * seed,), generator=generator)
    expected = oracles[kind].generate(
        prompt[None],
        attention_mask=torch.ones_like(prompt[None]),
        max_new_tokens=64,
        do_sample=False,
        eos_token_id=[],
        pad_token_id=0,
    )[0, len(prompt) :]
    model = models[kind]
    state = model.new_state(CAPACITY)
    hidden = model.forward(prompt, state)
    answer = []
    for _ in range(64):
        token = model.logits(hidden[-1:]).argmax(-1)
        answer.append(int(token))
        hidden = model.forward(token, state)
    assert answer == expected.tolist()


@pytest.mark.parametrize("rest", [1, 64])
@pytest.mark.parametrize("stop", [1, 65])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", NEW_KINDS)
def test_resume_equals_cold(
    folders: Mapping[str, Path], kind: str, dtype: Any, stop: int, rest: int
) -> None:
    """Bit for bit, in a state that held something else before."""
    model = load_model(folders[kind], EngineConfig(dtype=dtype))
    tokens = random_tokens(stop + rest)
    state = model.new_state(CAPACITY)
    run(model, tokens, [stop], state)
    checkpoint, kv = state.checkpoint(), state.read_kv(0, stop)
    cold = run(model, tokens, [stop + rest], state)

    resumed = model.new_state(CAPACITY + 100)
    run(model, random_tokens(150).flip(0), [150], resumed)
    resumed.reset()
    resumed.write_kv(0, kv)
    resumed.restore(checkpoint)
    assert torch.equal(run(model, tokens, [stop + rest], resumed), cold)


@pytest.mark.parametrize("kind", NEW_KINDS)
@pytest.mark.parametrize(
    "stops", [[130], range(1, 131)], ids=["whole", "token by token"]
)
def test_bfloat16_within_rounding(
    tmp_path: Path, kind: str, stops: Iterable[int]
) -> None:
    """No farther from the exact logits than transformers' own bfloat16 run."""
    rounded = make(kind).bfloat16()
    exact = make(kind)
    exact.load_state_dict(rounded.state_dict())
    model = load_model(publish(tmp_path, kind, rounded), EngineConfig(dtype="bfloat16"))
    tokens = random_tokens(130)
    expected = logits_of(exact, tokens)
    published = logits_of(rounded, tokens)
    error = (run(model, tokens, stops) - expected).square().mean().sqrt()
    assert error < 1.2 * (published - expected).square().mean().sqrt()


@pytest.mark.parametrize("kind", NEW_KINDS)
def test_architecture_and_state(models: Mapping[str, Model], kind: str) -> None:
    """Full attention leaves checkpoints of no bytes; a hybrid's are its recurrent state."""
    model = models[kind]
    assert model.summary.architecture.removesuffix("_text") == kind.removesuffix(
        "_text"
    )
    is_hybrid = kind in {"qwen3_next", "qwen3_5_moe_text"}
    assert bool(model.new_state(8).checkpoint_nbytes) is is_hybrid


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", NEW_KINDS)
def test_cuda_equals_cpu(
    folders: Mapping[str, Path], models: Mapping[str, Model], kind: str
) -> None:
    """And gives equal bits for equal stops."""
    on_gpu = load_model(folders[kind], EngineConfig(dtype="float32", device="cuda"))
    tokens, stops = random_tokens(130), [1, 65, 128, 129, 130]
    computed = run(on_gpu, tokens.cuda(), stops)
    assert_close(computed.cpu(), run(models[kind], tokens, stops), rtol=1e-3, atol=1e-3)
    assert torch.equal(run(on_gpu, tokens.cuda(), stops), computed)

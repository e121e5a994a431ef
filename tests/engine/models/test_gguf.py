"""Models in GGUF files: every architecture and format computes what it does elsewhere, and what does not fit is refused."""

from collections.abc import Mapping
import os
from pathlib import Path
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Type
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoModelForCausalLM, modeling_utils
from transformers.utils import logging

from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import (
    ModelLoadError,
    UnsupportedModelError,
    WeightFormatError,
)
from local_llm_engine.models.gguf import open_gguf
from local_llm_engine.models.registry import inspect_model, load_model, plan_model
from local_llm_engine.weights.linear import PlainLinear
from local_llm_engine.weights.loader import WeightLoader
from tests.engine.gguf_files import converted, metadata_of, write_file, write_gguf
from tests.engine.weights.gguf_packing import FORMATS, representable
from tests.engine.weights.test_safetensors import mapped_addresses

from .checkpoints import FLOAT32, random_tokens
from .oracles import KINDS, make as make_any, publish
from .test_architectures import logits_of
from .test_qwen3_5 import run

VARIANTS = [
    *(pytest.param(kind, {}, id=kind) for kind in KINDS),
    pytest.param("llama", {"tie_word_embeddings": True}, id="llama-tied"),
    pytest.param("llama", {"num_key_value_heads": 4}, id="llama-one query head a key head"),
    pytest.param("llama", {"attention_bias": True, "mlp_bias": True}, id="llama-every bias"),
    pytest.param("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}, id="llama-default rope"),
    pytest.param("llama", {"head_dim": 24}, id="llama-head of 24"),
    pytest.param("qwen2", {"tie_word_embeddings": True}, id="qwen2-tied"),
    pytest.param("qwen3_5_text", {"linear_num_key_heads": 4}, id="qwen3_5-one value head a key head"),
    pytest.param("qwen3_5_text", {"linear_num_key_heads": 1}, id="qwen3_5-four value heads a key head"),
    pytest.param("qwen3_5_text", {"tie_word_embeddings": False}, id="qwen3_5-separate head"),
    pytest.param("qwen3_next", {"linear_num_key_heads": 1}, id="qwen3_next-four value heads a key head"),
]  # fmt: skip
# Rows of a multiple of the largest block.
_WIDE = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "head_dim": 64,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 64,
}
_WIDE_KINDS = {
    "llama": {**_WIDE},
    "qwen3_5_moe_text": {
        **_WIDE,
        "layer_types": ["linear_attention", "full_attention"],
        "moe_intermediate_size": 256,
        "shared_expert_intermediate_size": 256,
        "num_experts": 3,
        "num_experts_per_tok": 2,
    },
}


def make(kind: str, changes: Mapping[str, Any] | None = None) -> Any:
    """Make a random model; llama.cpp knows none that chooses among experts in some layers only."""
    everywhere = {"mlp_only_layers": []} if kind in {"qwen3_moe", "qwen3_next"} else {}
    return make_any(kind, {**everywhere, **(changes or {})})


def same_logits(file: Path, oracle: Any, dtype: Any = "float32") -> None:
    model = load_model(file, EngineConfig(dtype=dtype, weights="bf16"))
    tokens = random_tokens(70)
    expected = logits_of(oracle, tokens)
    for stops in ([70], [3, 4, 5, 68, 69, 70]):
        assert_close(run(model, tokens, stops), expected, rtol=3e-4, atol=3e-4)


@pytest.mark.parametrize(("kind", "changes"), VARIANTS)
def test_logits_equal_oracle(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    oracle = make(kind, changes)
    same_logits(write_gguf(tmp_path / "model.gguf", kind, oracle), oracle)


@pytest.mark.parametrize("kind", _WIDE_KINDS)
@pytest.mark.parametrize("stored_as", FORMATS, ids=lambda kind: kind.name)
def test_every_format_equals_an_oracle_of_the_same_numbers(
    tmp_path: Path, kind: str, stored_as: Type
) -> None:
    oracle = make(kind, _WIDE_KINDS[kind])
    for name, parameter in oracle.named_parameters():
        is_small = (
            parameter.dim() < 2 or "conv1d" in name or name.endswith("gate.weight")
        )
        if not is_small:
            values = representable(parameter.numpy() / 4, stored_as)
            parameter.copy_(torch.from_numpy(values))
    file = write_gguf(tmp_path / "model.gguf", kind, oracle, stored_as=stored_as)
    same_logits(file, oracle)


@pytest.mark.parametrize("kind", ["qwen3_5_text", "qwen3_5_moe_text"])
def test_transformers_reads_these_files_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What the tests convert is what transformers takes for the work of llama.cpp's converter."""
    # It asks for a package that it then does not use.
    monkeypatch.setattr(modeling_utils, "is_accelerate_available", lambda: True)
    logging.disable_progress_bar()
    # It goes by the rule alone.
    layers = {"layer_types": ["linear_attention", "full_attention"] * 2}
    oracle = make(kind, {**layers, "full_attention_interval": 2})
    write_gguf(tmp_path / "model.gguf", kind, oracle)
    read = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="model.gguf", dtype=torch.float32
    ).eval()
    tokens = random_tokens(70)
    with torch.no_grad():
        assert_close(
            logits_of(read, tokens), logits_of(oracle, tokens), rtol=1e-4, atol=1e-4
        )
    same_logits(tmp_path / "model.gguf", read.requires_grad_(False))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_and_a_folder_hold_the_same_model(tmp_path: Path, kind: str) -> None:
    oracle = make(kind)
    folder = (
        publish(tmp_path / "folder", kind, oracle)
        if kind != "qwen3_5_moe_text"
        else None
    )
    file = write_gguf(tmp_path / "model.gguf", kind, oracle)
    summary = inspect_model(file)
    assert summary.architecture == kind
    assert summary.name == "model.gguf"
    assert plan_model(file, FLOAT32).weights_bytes > 0
    if folder:
        known = inspect_model(folder)
        assert (summary.num_layers, summary.context_length, summary.vocab_size) == (
            known.num_layers,
            known.context_length,
            known.vocab_size,
        )
        # The rotary embedding's factors are read with the configuration.
        assert summary.num_parameters == known.num_parameters


def test_weights_of_the_models_own_dtype_stay_mapped(tmp_path: Path) -> None:
    """All but those that are put in another order; also each expert's."""
    oracle = make("qwen3_5_moe_text").bfloat16().float()
    file = write_gguf(
        tmp_path / "model.gguf", "qwen3_5_moe_text", oracle, stored_as=Type.BF16
    )
    config, source = open_gguf(file)
    loader = WeightLoader(source, device=torch.device("cpu"), dtype=torch.bfloat16)
    addresses = None
    for name in (
        "model.embed_tokens.weight",
        "model.layers.1.self_attn.q_proj.weight",
        "model.layers.0.mlp.experts.6.up_proj.weight",
    ):
        linear = loader.linear(name)
        assert isinstance(linear, PlainLinear)
        addresses = addresses or mapped_addresses(file)
        assert any(linear.weight.data_ptr() in own for own in addresses)
    ordered = loader.linear("model.layers.0.linear_attn.in_proj_z.weight")
    assert isinstance(ordered, PlainLinear)
    assert not any(ordered.weight.data_ptr() in own for own in addresses or ())
    assert config.num_hidden_layers == 4


# The block that predicts the token after the next: a layer of its own, and what joins it to the others.
def predicting_block(index: int) -> dict[str, Tensor]:
    tensors = dict(converted("qwen3_5_text", make("qwen3_5_text")))
    own = {
        name.replace("blk.1.", f"blk.{index}."): tensor
        for name, tensor in tensors.items()
        if name.startswith("blk.1.")
    }
    extra = {
        "eh_proj": (40, 80),
        "enorm": (40,),
        "hnorm": (40,),
        "shared_head_norm": (40,),
    }
    return own | {
        f"blk.{index}.nextn.{name}.weight": torch.ones(shape)
        for name, shape in extra.items()
    }


def write_predicting(
    folder: Path,
    oracle: Any,
    num_blocks: int,
    num_predicting: int | None,
    is_there: bool,
) -> Path:
    """Write a file that tells of so many blocks, and has the one that predicts after its layers where that `is_there`."""
    return write_gguf(
        folder / "model.gguf",
        "qwen3_5_text",
        oracle,
        metadata={
            "qwen35.block_count": num_blocks,
            "qwen35.nextn_predict_layers": num_predicting,
        },
        further=predicting_block(oracle.config.num_hidden_layers) if is_there else None,
    )


@pytest.mark.parametrize(
    ("num_blocks", "num_predicting", "is_there"),
    [
        pytest.param(5, 1, True, id="counted and there"),
        pytest.param(5, 1, False, id="counted and left out"),
        pytest.param(4, 1, False, id="not counted and left out"),
        pytest.param(4, 1, True, id="not counted and there"),
        pytest.param(5, None, True, id="counted and not told of"),
        pytest.param(4, None, False, id="none"),
    ],
)
def test_blocks_that_predict_are_no_layers(
    tmp_path: Path, num_blocks: int, num_predicting: int | None, is_there: bool
) -> None:
    oracle = make("qwen3_5_text")
    file = write_predicting(tmp_path, oracle, num_blocks, num_predicting, is_there)
    assert inspect_model(file).num_layers == 4
    same_logits(file, oracle)


@pytest.mark.parametrize(
    ("num_blocks", "problem"),
    [
        (6, "model.layers.3.*missing from the weights; the metadata asks for"),
        (2, "model.layers.2.*unknown to the model that the metadata describes"),
        (0, "llama.block_count is 0; right is a whole number from 1"),
        (2**31, "llama.block_count is 2147483648; right is"),
        (True, "llama.block_count is True"),
        ("three", "llama.block_count is 'three'"),
        ([1, 2, 3], "llama.block_count is"),
        (None, "llama.block_count is missing"),
    ],
)
def test_a_wrong_number_of_blocks_is_refused(
    tmp_path: Path, num_blocks: Any, problem: str
) -> None:
    refuses(tmp_path, "llama", {"llama.block_count": num_blocks}, problem)


def refuses(
    folder: Path,
    kind: str,
    metadata: Mapping[str, Any],
    problem: str,
    further: Mapping[str, Tensor] | None = None,
) -> None:
    file = write_gguf(
        folder / "model.gguf", kind, make(kind), metadata=metadata, further=further
    )
    with pytest.raises(ModelLoadError, match=problem) as inspected:
        inspect_model(file)
    assert str(inspected.value).startswith(str(file))
    assert len(str(inspected.value)) < 600 + len(str(file))
    with pytest.raises(ModelLoadError) as loaded:
        load_model(file, FLOAT32)
    assert str(loaded.value) == str(inspected.value)


@pytest.mark.parametrize(
    ("kind", "metadata", "problem"),
    [
        ("llama", {"llama.embedding_length": None}, "llama.embedding_length is missing"),
        ("llama", {"llama.embedding_length": 48}, "embed_tokens.weight' has the shape .*; the metadata asks for"),
        ("llama", {"llama.attention.head_count": 0}, "llama.attention.head_count is 0"),
        ("llama", {"llama.attention.head_count": [4, 4, 2]}, "llama.attention.head_count is"),
        ("llama", {"llama.attention.head_count_kv": 3}, "llama.attention.head_count is 4; right is a multiple"),
        ("llama", {"llama.context_length": -5.5}, "llama.context_length is -5.5"),
        ("llama", {"llama.rope.freq_base": float("nan")}, "llama.rope.freq_base is nan"),
        ("llama", {"llama.rope.dimension_count": 11}, "llama.rope.dimension_count is 11; right is"),
        ("llama", {"llama.rope.dimension_count": 9}, "llama.rope.dimension_count is 9; right is"),
        ("qwen3_5_text", {"qwen35.rope.dimension_count": 9}, "qwen35.rope.dimension_count is 9; right is an even number"),
        ("qwen3_5_text", {"qwen35.ssm.time_step_rank": 2**30, "qwen35.ssm.inner_size": 2**30}, "the metadata asks for"),
        ("llama", {"llama.rope.dimension_count": 4}, "llama.rope.dimension_count is 4; right is"),
        ("llama", {"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type is 'yarn'; supported is 'none'"),
        ("llama", {"llama.attention.sliding_window": 128}, "llama.attention.sliding_window is 128"),
        ("llama", {"llama.expert_count": 8, "llama.logit_scale": 2.0}, "llama.logit_scale is 2.0"),
        ("llama", {"split.count": 3}, "is one of 3 parts .* llama-gguf-split --merge"),
        ("qwen3_moe", {"qwen3moe.expert_count": 10**9}, "qwen3moe.expert_count is 1000000000"),
        ("qwen3_moe", {"qwen3moe.expert_count": 6}, "right are 6 matrices"),
        ("qwen3_moe", {"qwen3moe.expert_used_count": 8}, "qwen3moe.expert_used_count is 8"),
        ("qwen3_5_text", {"qwen35.ssm.time_step_rank": 3}, "qwen35.ssm.time_step_rank is 3; right is a multiple"),
        ("qwen3_5_text", {"qwen35.ssm.inner_size": 81}, "qwen35.ssm.inner_size"),
        ("qwen3_5_text", {"qwen35.ssm.inner_size": 160}, "the metadata asks for"),
        ("qwen3_next", {"qwen3next.ssm.inner_size": 160}, "attn_qkv.weight' has the shape"),
    ],
)  # fmt: skip
def test_metadata_that_does_not_fit_is_refused(
    tmp_path: Path, kind: str, metadata: dict[str, Any], problem: str
) -> None:
    refuses(tmp_path, kind, metadata, problem)


@pytest.mark.parametrize(
    ("further", "problem"),
    [
        ({"blk.0.ssm_conv1d.weight": torch.ones(3, 4)}, "model.layers.0.linear_attn"),
        ({"blk.0.attn_sinks.weight": torch.ones(4)}, "'blk.0.attn_sinks.weight' is in the weights, unknown"),
        ({"blk.x.attn_norm.weight": torch.ones(4)}, "unknown"),
        ({"other.weight": torch.ones(4)}, "'other.weight' is in the weights, unknown"),
        ({"blk.0.post_attention_norm.weight": torch.ones(40)}, "under two names"),
        ({"rope_freqs.weight": torch.ones(5, 2)}, "rope_freqs.weight"),
        ({"rope_freqs.weight": torch.zeros(5)}, "rope_freqs.weight"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_refused(
    tmp_path: Path, further: dict[str, Tensor], problem: str
) -> None:
    refuses(tmp_path, "llama", {}, problem, further)


def test_a_tensor_that_no_shape_of_ours_holds_is_refused(tmp_path: Path) -> None:
    gates = {"blk.0.ffn_gate_inp_shexp.weight": torch.ones(2, 40)}
    refuses(
        tmp_path,
        "qwen3_5_moe_text",
        {},
        r"shared_expert_gate.*has the shape \[2, 40\]",
        gates,
    )


def test_a_file_that_has_become_shorter_is_refused(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", "qwen3", make("qwen3"))
    _, source = open_gguf(file)
    os.truncate(file, 1000)
    with pytest.raises(WeightFormatError, match="was changed while"):
        source.stored("model.norm.weight")


def test_heads_that_no_memory_could_hold_are_refused(tmp_path: Path) -> None:
    """Nothing of the claimed size is made before the tensors are known to be of it."""
    plain = {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}
    oracle = make("llama", plain)
    claims = {"attention.head_count": 2**28, "attention.head_count_kv": 2**28, "attention.key_length": 2**20, "rope.dimension_count": 2**20}  # fmt: skip
    file = write_gguf(
        tmp_path / "model.gguf",
        "llama",
        oracle,
        metadata={f"llama.{key}": value for key, value in claims.items()},
    )
    with pytest.raises(
        WeightFormatError, match=r"attn_q.*the metadata asks for 281474976710656"
    ):
        inspect_model(file)


def test_an_unknown_architecture_is_refused_with_those_known(tmp_path: Path) -> None:
    metadata = metadata_of("llama", make("llama"))
    metadata["general.architecture"] = "clip"
    file = write_file(tmp_path / "mmproj.gguf", metadata, {})
    with pytest.raises(
        UnsupportedModelError, match="is 'clip'; known are llama, qwen2, qwen3, qwen35"
    ):
        inspect_model(file)


def test_a_format_that_is_not_computed_is_refused_by_name(tmp_path: Path) -> None:
    file = write_gguf(
        tmp_path / "model.gguf", "llama", make("llama", {"hidden_size": 256})
    )
    content = file.read_bytes()
    name = b"blk.1.ffn_up.weight"
    entry = content.index(name) + len(name) + 4 + 2 * 8
    file.write_bytes(
        content[:entry] + (26).to_bytes(4, "little") + content[entry + 4 :]
    )
    with pytest.raises(
        UnsupportedModelError,
        match=r"ffn_up\.weight' is stored as I32; supported are F32",
    ):
        inspect_model(file)


def test_rates_that_grow_are_refused(tmp_path: Path) -> None:
    rates = {"blk.0.ssm_a": torch.tensor([-1.0, -1.0, 0.5, -1.0])}
    file = write_gguf(
        tmp_path / "model.gguf", "qwen3_5_text", make("qwen3_5_text"), further=rates
    )
    with pytest.raises(WeightFormatError, match="ssm_a holds numbers above 0"):
        load_model(file, FLOAT32)


def test_experts_whose_gate_and_up_lie_in_one_tensor(tmp_path: Path) -> None:
    oracle = make("qwen3_5_moe_text")
    tensors = dict(converted("qwen3_5_moe_text", oracle))
    for index in range(4):
        gate, up = (
            tensors.pop(f"blk.{index}.ffn_{part}_exps.weight")
            for part in ("gate", "up")
        )
        tensors[f"blk.{index}.ffn_gate_up_exps.weight"] = torch.cat((gate, up), dim=1)
    metadata = metadata_of("qwen3_5_moe_text", oracle)
    same_logits(write_file(tmp_path / "model.gguf", metadata, tensors), oracle)


def test_a_folder_with_one_file_is_that_file(tmp_path: Path) -> None:
    oracle = make("qwen2")
    write_gguf(tmp_path / "model.gguf", "qwen2", oracle)
    (tmp_path / "mmproj-model.gguf").write_bytes(b"eyes")
    same_logits(tmp_path, oracle)
    (tmp_path / "other.GGUF").write_bytes(b"")
    with pytest.raises(
        ModelLoadError, match=r"holds 2 GGUF files, model.gguf and other.GGUF"
    ):
        inspect_model(tmp_path)


def test_what_is_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="is no folder and no file"):
        inspect_model(tmp_path / "nowhere.gguf")


def test_the_names_of_layers_are_those_of_the_package() -> None:
    """No architecture that is read has a tensor that would be refused for its name."""
    from local_llm_engine.models.gguf_config import MODEL_TYPES  # noqa: PLC0415

    assert set(MODEL_TYPES) <= set(gguf.MODEL_ARCH_NAMES.values())

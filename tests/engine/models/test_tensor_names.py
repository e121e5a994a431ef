"""Names and shapes: every needed tensor is found, every other is accounted for, by name."""

from collections.abc import Callable
from pathlib import Path
import re

import pytest
import torch
from torch import Tensor
from transformers import Qwen3_5ForCausalLM

from local_llm_engine.errors import WeightFormatError
from local_llm_engine.models.registry import load_model

from .checkpoints import (
    FLOAT32,
    TEXT_CONFIG,
    make_oracle,
    refuses,
    tensors_of,
    write_checkpoint,
)


@pytest.fixture(scope="module")
def oracle() -> Qwen3_5ForCausalLM:
    return make_oracle()


def test_tied_head_that_is_stored_too(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM
) -> None:
    tensors = tensors_of(oracle)
    doubled = tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}
    assert (
        load_model(write_checkpoint(tmp_path, doubled), FLOAT32).summary.vocab_size
        == 97
    )


def test_tied_head_that_differs(tmp_path: Path, oracle: Qwen3_5ForCausalLM) -> None:
    tensors = tensors_of(oracle)
    different = tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"] + 1.0}
    with pytest.raises(
        WeightFormatError,
        match=r"'lm_head\.weight' differs from 'model\.embed_tokens\.weight'",
    ):
        load_model(write_checkpoint(tmp_path, different), FLOAT32)


@pytest.mark.parametrize("name", list(tensors_of(make_oracle())))
def test_missing_tensor_is_named(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, name: str
) -> None:
    tensors = tensors_of(oracle)
    del tensors[name]
    refuses(
        write_checkpoint(tmp_path, tensors),
        f"tensor '{re.escape(name)}' is missing from the weights",
    )


def test_missing_head_is_named(tmp_path: Path, oracle: Qwen3_5ForCausalLM) -> None:
    folder = write_checkpoint(
        tmp_path, tensors_of(oracle), {**TEXT_CONFIG, "tie_word_embeddings": False}
    )
    refuses(folder, r"tensor 'lm_head\.weight' is missing")


def test_many_missing_tensors_are_counted(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM
) -> None:
    tensors = {
        name: tensor
        for name, tensor in tensors_of(oracle).items()
        if ".layers.0." not in name
    }
    refuses(
        write_checkpoint(tmp_path, tensors),
        r"tensors 'model\.layers\.0\..*' and 11 more are missing",
    )


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.4.mlp.gate_proj.weight",
        "model.layers.0.linear_attn.in_proj_qkv.weight_scale_inv",
        "model.language_modelx.embed_tokens.weight",
        "transformer.wte.weight",
    ],
)
def test_unknown_tensor_is_named(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM, name: str
) -> None:
    folder = write_checkpoint(tmp_path, tensors_of(oracle) | {name: torch.zeros(2)})
    refuses(
        folder, f"tensor '{re.escape(name)}' is in the weights, unknown to the model"
    )


def test_mixed_prefixes_are_refused(tmp_path: Path, oracle: Qwen3_5ForCausalLM) -> None:
    both = tensors_of(oracle, "model.language_model.") | {
        "model.norm.weight": torch.zeros(40)
    }
    refuses(
        write_checkpoint(tmp_path, both),
        r"'model\.norm\.weight' is in the weights, unknown",
    )


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (
            "model.norm.weight",
            lambda tensor: tensor[:-1],
            r"has the shape \[39\]; config\.json asks for \[40\]",
        ),
        (
            "model.embed_tokens.weight",
            lambda tensor: tensor.t(),
            r"has the shape \[40, 97\].* asks for \[97, 40\]",
        ),
        (
            "model.layers.0.linear_attn.conv1d.weight",
            lambda tensor: tensor[:, 0],
            r"has the shape \[128, 4\]; config\.json asks for \[128, 1, 4\]",
        ),
        (
            "model.layers.1.self_attn.q_norm.weight",
            lambda tensor: tensor.double(),
            "has the dtype F64; supported are BF16",
        ),
        (
            "model.layers.1.mlp.up_proj.weight",
            lambda tensor: tensor.to(torch.int8),
            "has the dtype I8; supported are",
        ),
        (
            "model.layers.3.self_attn.o_proj.weight",
            lambda tensor: tensor.to(torch.float8_e4m3fn),
            "has the dtype F8_E4M3; supported are",
        ),
    ],
    ids=["short", "transposed", "flat", "float64", "int8", "float8"],
)
def test_wrong_tensor_is_named(
    tmp_path: Path,
    oracle: Qwen3_5ForCausalLM,
    name: str,
    change: Callable[[Tensor], Tensor],
    problem: str,
) -> None:
    tensors = tensors_of(oracle)
    tensors[name] = change(tensors[name]).contiguous()
    refuses(
        write_checkpoint(tmp_path, tensors), f"tensor '{re.escape(name)}' {problem}"
    )


def test_config_that_does_not_fit_the_weights(
    tmp_path: Path, oracle: Qwen3_5ForCausalLM
) -> None:
    folder = write_checkpoint(
        tmp_path, tensors_of(oracle), {**TEXT_CONFIG, "hidden_size": 44}
    )
    refuses(folder, r"has the shape \[97, 40\]; config\.json asks for \[97, 44\]")

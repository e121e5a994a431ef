"""Quantized checkpoints: the model that they stand for, whatever is left out of them, and what cannot be read."""

from collections.abc import Callable, Mapping
import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.errors import ModelLoadError, UnsupportedModelError
from local_llm_engine.models.registry import inspect_model, load_model, plan_model
from local_llm_engine.weights.awq import AwqScheme
from local_llm_engine.weights.fp8 import Fp8Scheme
from local_llm_engine.weights.gptq import GptqScheme
from local_llm_engine.weights.packed_int4 import PackedInt4Scheme
from tests.engine.weights.quantizing import (
    CONFIGS,
    GROUP,
    Quantized,
    awq,
    compressed_tensors,
    fp8,
    gptq,
    quantize,
)

from .checkpoints import FLOAT32, TEXT_CONFIG, random_tokens, refuses, write_checkpoint
from .oracles import make, write_separate
from .test_config import read
from .test_qwen3_5 import run

# Real models keep these as they are: they are small, and much hangs on them.
LEFT_OUT = (
    "in_proj_a",
    "in_proj_b",
    "in_proj_ba",
    "shared_expert",
    "embed_tokens",
    "lm_head",
)
# AWQ packs eight rows into a word, so that every matrix needs a multiple of them.
WHOLE_WORDS = {"hidden_size": 64}
WAYS: Mapping[str, Callable[[Tensor], Quantized]] = {
    "gptq": lambda weight: gptq(quantize(weight)),
    "awq": lambda weight: awq(quantize(weight)),
    "compressed-tensors": lambda weight: compressed_tensors(
        quantize(weight), symmetric=False
    ),
    "fp8": lambda weight: fp8(weight, (32, 16)),
}


def separate_tensors(folder: Path, oracle: Any) -> dict[str, Tensor]:
    """Write a model as transformers does and return its tensors, of each expert its own."""
    return load_file(write_separate(folder, oracle) / "model.safetensors")


def is_quantized(name: str, left_out: tuple[str, ...]) -> bool:
    is_matrix = "_proj" in name and name.endswith(".weight")
    return is_matrix and not any(module in name for module in left_out)


def write_quantized(
    folder: Path,
    oracle: Any,
    way: str,
    *,
    left_out: tuple[str, ...] = LEFT_OUT,
    **changes: Any,
) -> dict[str, Tensor]:
    """Write a quantized checkpoint; return what its matrices stand for, named as unquantized."""
    stored, exact = {}, {}
    for name, tensor in separate_tensors(folder, oracle).items():
        if is_quantized(name, left_out):
            quantized = WAYS[way](tensor)
            module = name.removesuffix(".weight")
            stored |= {
                f"{module}.{part}": own for part, own in quantized.tensors.items()
            }
            exact[name] = quantized.weight
        else:
            # What is left out of the matrices stays in bfloat16, as people's models have it.
            own = tensor.bfloat16() if "_proj" in name else tensor
            stored[name] = exact[name] = own
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {**CONFIGS[way], **changes}
    write_checkpoint(folder, stored, config)
    return exact


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kind", ["llama", "qwen2", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"]
)  # fmt: skip
def test_logits_are_those_of_the_dequantized_model(
    tmp_path: Path, way: str, kind: str
) -> None:
    oracle = make(kind, WHOLE_WORDS)
    exact = write_quantized(tmp_path / "quantized", oracle, way)
    config = json.loads((tmp_path / "quantized" / "config.json").read_text())
    del config["quantization_config"]
    plain = load_model(write_checkpoint(tmp_path / "plain", exact, config), FLOAT32)
    model = load_model(tmp_path / "quantized", FLOAT32)
    tokens = random_tokens(40)
    logits = run(model, tokens, [37, 38, 40])
    assert_close(logits, run(plain, tokens, [37, 38, 40]), rtol=1e-4, atol=1e-4)
    loaded = type(oracle).from_pretrained(tmp_path / "plain").eval()
    expected = loaded(tokens[None], use_cache=False).logits[0].detach()
    assert_close(logits, expected, rtol=3e-4, atol=3e-4)
    assert model.summary.weights_bytes < plain.summary.weights_bytes
    assert model.summary.num_parameters == plain.summary.num_parameters


@pytest.mark.parametrize("way", WAYS)
def test_plan_is_that_of_the_dequantized_model(tmp_path: Path, way: str) -> None:
    oracle = make("llama", WHOLE_WORDS)
    exact = write_quantized(tmp_path / "quantized", oracle, way)
    config = json.loads((tmp_path / "quantized" / "config.json").read_text())
    del config["quantization_config"]
    write_checkpoint(tmp_path / "plain", exact, config)
    plans = [plan_model(tmp_path / name, FLOAT32) for name in ("quantized", "plain")]
    assert plans[0].weights_bytes == plans[1].weights_bytes


@pytest.mark.parametrize(
    ("left_out", "rules"),
    [
        pytest.param(LEFT_OUT, {"-:.*in_proj_[ab]$": {}}, id="listed"),
        pytest.param((*LEFT_OUT, "self_attn", "linear_attn"), {"-:.*attn.*": {}, "-:.*mtp.*": {}}, id="all attention"),
        pytest.param((*LEFT_OUT, "layers.2."), {"-:.*in_proj_[ab]$": {}}, id="more than is listed"),
        pytest.param(LEFT_OUT, {}, id="nothing listed"),
        pytest.param(LEFT_OUT, {"+:.*mlp.*": {"bits": 4, "group_size": GROUP}}, id="the same said again"),
    ],
)  # fmt: skip
def test_what_gptq_leaves_out_is_used_as_it_is(
    tmp_path: Path, left_out: tuple[str, ...], rules: dict[str, Any]
) -> None:
    """Whether the configuration lists it or not: the checkpoint has it by its plain name."""
    oracle = make("qwen3_5_text")
    exact = write_quantized(
        tmp_path / "quantized", oracle, "gptq", left_out=left_out, dynamic=rules
    )
    model = load_model(tmp_path / "quantized", FLOAT32)
    oracle.load_state_dict(exact, strict=False)
    tokens = random_tokens(40)
    expected = oracle(tokens[None], use_cache=False).logits[0]
    assert_close(run(model, tokens, [40]), expected, rtol=3e-4, atol=3e-4)


@pytest.mark.parametrize(
    ("way", "part"),
    [
        ("fp8", "weight_scale_inv"),
        ("gptq", "scales"),
        ("awq", "qzeros"),
        ("compressed-tensors", "weight_scale"),
    ],
)
def test_missing_part_is_named(tmp_path: Path, way: str, part: str) -> None:
    write_quantized(tmp_path, make("llama", WHOLE_WORDS), way)
    config = json.loads((tmp_path / "config.json").read_text())
    tensors = load_file(tmp_path / "model.safetensors")
    name = f"model.layers.1.mlp.up_proj.{part}"
    del tensors[name]
    write_checkpoint(tmp_path, tensors, config)
    refuses(tmp_path, f"tensor '{name}' is missing; 'model.layers.1.mlp.up_proj")


def test_scale_without_its_matrix_is_named(tmp_path: Path) -> None:
    """A matrix that was written in another dtype, its scale still beside it."""
    write_quantized(tmp_path, make("llama", WHOLE_WORDS), "fp8")
    config = json.loads((tmp_path / "config.json").read_text())
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name].bfloat16()
    write_checkpoint(tmp_path, tensors, config)
    refuses(tmp_path, rf"tensor '{name}_scale_inv' is in the weights, unknown")


def test_codes_of_another_shape_are_named(tmp_path: Path) -> None:
    write_quantized(tmp_path, make("llama", WHOLE_WORDS), "gptq")
    config = json.loads((tmp_path / "config.json").read_text())
    write_quantized(
        tmp_path / "other",
        make("llama", {**WHOLE_WORDS, "intermediate_size": 64}),
        "gptq",
    )
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    refuses(
        tmp_path / "other",
        r"'model\.layers\.0\.mlp\.gate_proj\.weight' has the shape \[64, 64\]; config\.json asks for \[56, 64\]",
    )


def test_inspecting_dequantizes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quantized(tmp_path, make("llama", WHOLE_WORDS), "gptq")
    monkeypatch.delattr(GptqScheme, "open")
    assert inspect_model(tmp_path).architecture == "llama"


PACKED = CONFIGS["compressed-tensors"]
WEIGHTS = PACKED["config_groups"]["group_0"]["weights"]


def packed(**changes: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {**WEIGHTS, **changes}}
    return {**PACKED, "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("section", "scheme"),
    [
        pytest.param(CONFIGS["fp8"], Fp8Scheme(block_rows=32, block_columns=16), id="fp8"),
        pytest.param(CONFIGS["gptq"], GptqScheme(group_size=GROUP, stored_less_one=True), id="gptq"),
        pytest.param(
            {**CONFIGS["gptq"], "checkpoint_format": "gptq_v2", "group_size": -1},
            GptqScheme(group_size=None, stored_less_one=False),
            id="gptq, second version",
        ),
        pytest.param(CONFIGS["awq"], AwqScheme(group_size=GROUP), id="awq"),
        pytest.param(
            {"quant_method": "awq", "w_bit": 4, "group_size": 128, "version": "GEMM"},
            AwqScheme(group_size=128),
            id="awq by its first names",
        ),
        pytest.param(packed(), PackedInt4Scheme(group_size=GROUP, symmetric=False), id="compressed-tensors"),
        pytest.param(
            packed(strategy="channel", group_size=None, symmetric=True),
            PackedInt4Scheme(group_size=None, symmetric=True),
            id="compressed-tensors by row",
        ),
    ],
)  # fmt: skip
def test_scheme(tmp_path: Path, section: dict[str, Any], scheme: object) -> None:
    config = {**TEXT_CONFIG, "quantization_config": section}
    assert read(tmp_path, config).quantization == scheme


def test_scheme_within_the_text_model(tmp_path: Path) -> None:
    text = {**TEXT_CONFIG, "quantization_config": CONFIGS["awq"]}
    config = read(tmp_path, {"model_type": "qwen3_5", "text_config": text})
    assert config.quantization == AwqScheme(group_size=GROUP)


UNSUPPORTED = [
    pytest.param({"quant_method": "bitsandbytes"}, r"the weights are quantized \('bitsandbytes'\); supported are awq, compressed-tensors, fp8, gptq and unquantized BF16", id="method"),
    pytest.param({"quant_method": ["fp8"]}, r"the weights are quantized \(\['fp8'\]\)", id="method that is no text"),
    pytest.param({}, r"the weights are quantized \(None\)", id="no method"),
    pytest.param({**CONFIGS["fp8"], "activation_scheme": "static"}, "activation_scheme is 'static'; supported is 'dynamic'", id="static activations"),
    pytest.param({**CONFIGS["gptq"], "bits": 8}, r"quantization_config\.bits is 8; supported is 4", id="gptq in 8 bits"),
    pytest.param({**CONFIGS["gptq"], "checkpoint_format": "marlin"}, "checkpoint_format is 'marlin'; supported is 'gptq'", id="marlin"),
    pytest.param({**CONFIGS["gptq"], "dynamic": {".*mlp.*": {"bits": 8}}}, r"dynamic\.\.\*mlp\.\*\.bits is 8; supported is 4", id="gptq partly in 8 bits"),
    pytest.param({**CONFIGS["gptq"], "dynamic": {"+:.*mlp.*": {"group_size": 32}}}, "group_size is 32; supported is 16", id="gptq partly in other groups"),
    pytest.param({**CONFIGS["awq"], "version": "gemv"}, "version is 'gemv'; supported is 'gemm'", id="awq gemv"),
    pytest.param({**CONFIGS["awq"], "bits": 3}, "bits is 3; supported is 4", id="awq in 3 bits"),
    pytest.param({**PACKED, "format": "float-quantized"}, "format is 'float-quantized'; supported is 'pack-quantized'", id="float-quantized"),
    pytest.param(packed(num_bits=8), "num_bits is 8; supported is 4", id="packed in 8 bits"),
    pytest.param(packed(type="float"), "type is 'float'; supported is 'int'", id="packed floats"),
    pytest.param(packed(strategy="tensor"), "strategy is 'tensor'; supported is 'group'", id="one scale for all"),
    pytest.param({**PACKED, "config_groups": {"a": {"input_activations": {"num_bits": 8}, "weights": WEIGHTS}}}, "input_activations is .* supported is None", id="quantized activations"),
    pytest.param({**PACKED, "config_groups": {"a": {"weights": WEIGHTS}, "b": {"weights": {**WEIGHTS, "group_size": 32}}}}, "holds 2 ways of quantizing; supported is one", id="two ways"),
    pytest.param({**PACKED, "config_groups": {}}, "holds 0 ways of quantizing; supported is one", id="no way"),
]  # fmt: skip
WRONG = [
    pytest.param({"quant_method": "fp8"}, "weight_block_size is missing; right is a block's rows and columns", id="fp8 without blocks"),
    pytest.param({**CONFIGS["fp8"], "weight_block_size": [128]}, r"weight_block_size is \[128\]; right is", id="fp8 of one side"),
    pytest.param({**CONFIGS["fp8"], "weight_block_size": [0, 128]}, r"weight_block_size is \[0, 128\]; right is", id="fp8 of no rows"),
    pytest.param({**CONFIGS["gptq"], "group_size": 0}, "group_size is 0; right is a whole number from 1", id="gptq of no columns"),
    pytest.param({**CONFIGS["awq"], "group_size": None}, "group_size is None; right is a whole number from 1", id="awq without groups"),
    pytest.param({**CONFIGS["gptq"], "dynamic": ["-:.*"]}, r"dynamic is \['-:\.\*'\]; right is an object", id="rules in a list"),
    pytest.param({**PACKED, "config_groups": {"a": 1}}, r"config_groups\.a is 1; right is an object", id="a group that is none"),
    pytest.param(packed(group_size=None), "group_size is None; right is a whole number", id="packed without groups"),
    pytest.param(7, "quantization_config is 7; right is an object", id="a number"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "problem"), UNSUPPORTED)
def test_unsupported_option_is_named(
    tmp_path: Path, section: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=problem):
        read(tmp_path, {**TEXT_CONFIG, "quantization_config": section})


@pytest.mark.parametrize(("section", "problem"), WRONG)
def test_wrong_field_is_named(tmp_path: Path, section: object, problem: str) -> None:
    with pytest.raises(ModelLoadError, match=problem):
        read(tmp_path, {**TEXT_CONFIG, "quantization_config": section})

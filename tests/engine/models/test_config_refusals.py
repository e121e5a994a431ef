"""Options of the architectures that are not computed here, and fields that cannot be right: each is named."""

from pathlib import Path
from typing import Any

import pytest

from local_llm_engine.errors import ModelLoadError, UnsupportedModelError

from .published_configs import PUBLISHED
from .test_config import read

ROPE = PUBLISHED["Llama-3.2-1B"]["rope_scaling"]
UNSUPPORTED = [
    pytest.param(
        "Qwen2.5-0.5B",
        {"use_sliding_window": True},
        "use_sliding_window is True; supported is False",
        id="sliding window",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"use_sliding_window": True},
        "use_sliding_window is True; supported is False",
        id="sliding window of qwen3",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"layer_types": ["sliding_attention"] * 28},
        "layer_types holds 'sliding_attention'; supported are full_attention",
        id="sliding layers",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"layer_types": ["linear_attention"] * 16},
        "layer_types holds 'linear_attention'; supported are full_attention",
        id="linear layers",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"rope_scaling": {**ROPE, "rope_type": "dynamic"}},
        r"rope_scaling\.rope_type is 'dynamic'; supported are 'default' and 'llama3'",
        id="dynamic rope",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        r"rope_scaling\.type is 'yarn'; supported are 'default' and 'llama3'",
        id="yarn",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"hidden_act": "relu"},
        "hidden_act is 'relu'; supported is 'silu'",
        id="activation",
    ),
    pytest.param(
        "Qwen3-Next-80B-A3B",
        {"attention_bias": True},
        "attention_bias is True; supported is False",
        id="bias",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"quantization_config": {"quant_method": "hqq"}},
        r"the weights are quantized \('hqq'\)",
        id="quantized",
    ),
    pytest.param(
        "Qwen3.5-35B-A3B",
        {"model_type": "qwen3_5"},
        r"text_config\.model_type is 'qwen3_5_moe_text'; supported is 'qwen3_5_text'",
        id="text model of another kind",
    ),
    pytest.param(
        "SmolLM2-135M",
        {"model_type": "mistral"},
        "model_type is 'mistral'; known are llama, qwen2, qwen3, qwen3_5, qwen3_5_moe, qwen3_5_moe_text, "
        "qwen3_5_text, qwen3_moe, qwen3_next$",
        id="model",
    ),
]  # fmt: skip
WRONG = [
    pytest.param(
        "Qwen3-30B-A3B",
        {"num_experts": None},
        "num_experts is None; right is a whole number from 1",
        id="no experts",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"num_experts_per_tok": 129},
        "num_experts_per_tok is 129; right is a whole number from 1 to 128",
        id="more than there are",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"num_experts": 10**9},
        "num_experts is 1000000000; right is a whole number from 1 to 2730",
        id="a billion experts",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"mlp_only_layers": ["0"]},
        r"mlp_only_layers is \['0'\]; right is a list of indices of layers",
        id="layers in words",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"mlp_only_layers": 3},
        "mlp_only_layers is 3; right is a list of indices of layers",
        id="one layer",
    ),
    pytest.param(
        "Qwen3-30B-A3B",
        {"decoder_sparse_step": 0},
        "decoder_sparse_step is 0; right is a whole number from 1",
        id="step of nothing",
    ),
    pytest.param(
        "Qwen3-Next-80B-A3B",
        {"shared_expert_intermediate_size": None},
        "shared_expert_intermediate_size is None; right is a whole number",
        id="no shared expert",
    ),
    pytest.param(
        "Qwen2.5-0.5B",
        {"num_attention_heads": 13},
        "hidden_size is 896; right is a multiple of num_attention_heads, which is 13",
        id="heads that do not divide",
    ),
    pytest.param(
        "Qwen2.5-0.5B",
        {"num_key_value_heads": None},
        "num_key_value_heads is None; right is a whole number",
        id="key heads",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"num_hidden_layers": 10**6},
        "num_hidden_layers is 1000000; right is",
        id="a million layers",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"rope_scaling": {**ROPE, "high_freq_factor": 1.0}},
        r"rope_scaling\.high_freq_factor is 1\.0; right is a number above low_freq_factor, 1\.0",
        id="no room between",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"rope_scaling": {**ROPE, "factor": 0.5}},
        r"rope_scaling\.factor is 0\.5; right is a number above 0, from 1\.0",
        id="shrinking",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {
            "rope_scaling": {
                key: ROPE[key]
                for key in ROPE
                if key != "original_max_position_embeddings"
            }
        },
        r"rope_scaling\.original_max_position_embeddings is missing",
        id="stretched from nowhere",
    ),
    pytest.param(
        "Qwen3-0.6B",
        {"rope_theta": None},
        "rope_theta is None; right is a number above 0",
        id="no theta",
    ),
    pytest.param(
        "Llama-3.2-1B",
        {"attention_bias": 1},
        "attention_bias is 1; right is true or false",
        id="bias in numbers",
    ),
]


@pytest.mark.parametrize(("name", "changes", "problem"), UNSUPPORTED)
def test_unsupported_option_is_named(
    tmp_path: Path, name: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=problem):
        read(tmp_path, {**PUBLISHED[name], **changes})


@pytest.mark.parametrize(("name", "changes", "problem"), WRONG)
def test_wrong_field_is_named(
    tmp_path: Path, name: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ModelLoadError, match=problem):
        read(tmp_path, {**PUBLISHED[name], **changes})

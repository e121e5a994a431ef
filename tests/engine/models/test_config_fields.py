"""Fields of config.json: a missing or wrong one is named, with what would be right."""

from pathlib import Path
from typing import Any

import pytest

from local_llm_engine.errors import ModelLoadError
from local_llm_engine.models.architectures import read_config

from .checkpoints import TEXT_CONFIG
from .test_config import ROPE, read, without


@pytest.mark.parametrize("name", [name for name in TEXT_CONFIG if name not in {
    "layer_types", "hidden_act", "attention_bias", "tie_word_embeddings", "rope_parameters",
}])  # fmt: skip
def test_missing_field_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ModelLoadError, match=rf"config\.json: {name} is missing; right is "
    ):
        read(tmp_path, without(name))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param(
            {"hidden_size": "40"},
            "hidden_size is '40'; right is a whole number from 1 to",
            id="text",
        ),
        pytest.param(
            {"hidden_size": 40.0},
            "hidden_size is 40.0; right is a whole number",
            id="broken number",
        ),
        pytest.param(
            {"hidden_size": True},
            "hidden_size is True; right is a whole number",
            id="truth value",
        ),
        pytest.param(
            {"hidden_size": 0},
            "hidden_size is 0; right is a whole number from 1",
            id="nothing",
        ),
        pytest.param(
            {"vocab_size": -1},
            "vocab_size is -1; right is a whole number from 1",
            id="negative",
        ),
        pytest.param(
            {"num_hidden_layers": 10**9},
            "num_hidden_layers is 1000000000; right is",
            id="too many layers",
        ),
        pytest.param(
            {"linear_conv_kernel_dim": 1},
            "linear_conv_kernel_dim is 1; right is",
            id="kernel of one",
        ),
        pytest.param(
            {"rms_norm_eps": 0},
            "rms_norm_eps is 0; right is a number above 0",
            id="epsilon of 0",
        ),
        pytest.param(
            {"rms_norm_eps": float("nan")},
            "rms_norm_eps is nan; right is",
            id="epsilon is no number",
        ),
        pytest.param(
            {"tie_word_embeddings": "yes"},
            "tie_word_embeddings is 'yes'; right is true or false",
            id="tie",
        ),
        pytest.param(
            {"layer_types": ["full_attention"]},
            "right is a list of 4 layer types",
            id="one layer type",
        ),
        pytest.param(
            {"layer_types": [*TEXT_CONFIG["layer_types"][1:], None]},
            "layer_types holds None; supported are linear_attention, full_attention",
            id="no layer type",
        ),
        pytest.param(
            {"num_key_value_heads": 3},
            "num_attention_heads is 4; right is a multiple",
            id="heads",
        ),
        pytest.param(
            {"linear_num_key_heads": 3},
            "linear_num_value_heads is 4; right is a multiple",
            id="delta heads",
        ),
        pytest.param(
            {"rope_parameters": 7},
            "rope_parameters is 7; right is an object",
            id="rope is a number",
        ),
        pytest.param(
            {"rope_parameters": {}},
            r"rope_parameters\.rope_theta is missing",
            id="no theta",
        ),
        pytest.param(
            {"rope_parameters": dict(ROPE, partial_rotary_factor=0.2)},
            r"rope_parameters\.partial_rotary_factor is 0\.2; right is a part of head_dim 16",
            id="odd rotary part",
        ),
        pytest.param(
            {"rope_parameters": dict(ROPE, partial_rotary_factor=1.5)},
            r"partial_rotary_factor is 1\.5; right is a number above 0, from 0\.0 to 1\.0",
            id="more than the head",
        ),
    ],
)
def test_wrong_field_is_named(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ModelLoadError, match=problem):
        read(tmp_path, TEXT_CONFIG | changes)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "is not valid JSON", id="empty"),
        pytest.param(b"{'a': 1}", "is not valid JSON", id="no JSON"),
        pytest.param(b"\xff\xfe\x00", "is not valid JSON", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "is not valid JSON", id="too deep"),
        pytest.param(b"[]", "must hold a JSON object, not list", id="list"),
    ],
)
def test_file_that_is_no_json_object(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelLoadError, match=problem):
        read_config(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(
        ModelLoadError, match=r"config\.json: is missing; a model folder needs it"
    ):
        read_config(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a" * 1_000_000, id="text"),
        pytest.param([0] * 1_000_000, id="list"),
        pytest.param(10**4_000, id="number"),
        pytest.param("\n\0\ud800", id="what cannot be printed"),
    ],
)
@pytest.mark.parametrize(
    "name", ["model_type", "hidden_size", "hidden_act", "layer_types", "rope_parameters", "quantization_config"]
)  # fmt: skip
def test_no_value_is_quoted_at_length(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(ModelLoadError) as caught:
        read(tmp_path, {**TEXT_CONFIG, name: value})
    words = str(caught.value)
    assert len(words) < 400
    assert words.isprintable()


def test_no_name_is_quoted_at_length(tmp_path: Path) -> None:
    rules = {"a" * 1_000_000: {"bits": 3}, "\n": {"bits": 3}}
    for name, rule in rules.items():
        scheme = {"quant_method": "gptq", "bits": 4, "group_size": 32}
        config = {**TEXT_CONFIG, "quantization_config": {**scheme, "dynamic": {name: rule}}}  # fmt: skip
        with pytest.raises(ModelLoadError, match="bits is 3") as caught:
            read(tmp_path, config)
        words = str(caught.value)
        assert len(words) < 400
        assert words.isprintable()


def test_a_file_larger_than_any_is_not_read(tmp_path: Path) -> None:
    """A config.json of 150 MB takes seconds and a gigabyte to parse, whatever is in it."""
    file = tmp_path / "config.json"
    with file.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    with pytest.raises(ModelLoadError, match=r"is 16,777,217 bytes long; it may have"):
        read_config(tmp_path)

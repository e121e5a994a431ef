"""Bad values are refused when they are made, by name, value and range."""

from typing import Any

import pytest

from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import ConfigError, InvalidRequestError
from local_llm_engine.types import ChatRequest, Message, Purpose, SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("min_p", -1),
        ("repetition_penalty", 0),
        ("presence_penalty", float("inf")),
        ("seed", -1),
        ("seed", 2**63),
        ("max_tokens", 0),
    ],
)
def test_sampling_value_out_of_range(field: str, value: Any) -> None:
    """The message names the field and the value."""
    with pytest.raises(InvalidRequestError, match=field) as caught:
        SamplingParams(**{field: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [{"temperature": 0}, {"top_k": 0}, {"top_p": 1}, {"seed": 0}, {"max_tokens": 1}],
)
def test_sampling_value_at_its_bound(params: dict[str, Any]) -> None:
    """Bounds belong to the range."""
    SamplingParams(**params)


def test_unknown_role() -> None:
    """A role that no template knows is named."""
    with pytest.raises(InvalidRequestError, match="'robot'"):
        Message(role="robot", content="beep")  # type: ignore[arg-type]


def test_request_without_messages_or_with_an_unknown_purpose() -> None:
    """Nothing to answer, or nobody to answer it for."""
    with pytest.raises(InvalidRequestError, match="messages"):
        ChatRequest(messages=())
    with pytest.raises(InvalidRequestError, match="purpose"):
        ChatRequest(messages=(Message(role="user", content="hi"),), purpose="party")  # type: ignore[arg-type]
    assert (
        ChatRequest(messages=(Message(role="user", content="hi"),)).purpose
        is Purpose.VOICE
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("device", "abacus"),
        ("dtype", "int3"),
        ("context_length", 63),
        ("context_length", 100.0),
        ("prompt_cache_bytes", -1),
        ("cache_folder", "/a/string"),
        ("disk_cache_bytes", -1),
        ("half_checkpoints", 1),
        ("prefill_chunk_tokens", 0),
        ("num_threads", 0),
        ("num_threads", 1_000_000),
        ("record_file", "/a/string"),
    ],
)
def test_configuration_out_of_range(field: str, value: Any) -> None:
    """The message names the field and the value."""
    with pytest.raises(ConfigError, match=field) as caught:
        EngineConfig(**{field: value})
    assert repr(value) in str(caught.value)

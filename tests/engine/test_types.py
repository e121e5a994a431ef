"""Bad values are refused when they are made, by name, value and range."""

from typing import Any

import pytest

from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import ConfigError, InvalidRequestError
from local_llm_engine.types import ChatRequest, Message, Purpose


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

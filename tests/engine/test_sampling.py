"""Sampling values are refused when they are made, by name, value and range."""

from typing import Any

import pytest

from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.sampling import SamplingParams


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
        ("repetition_penalty", 0.009),
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

"""The gated delta rule: reference against the published formula, fast forms against the reference."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

from local_llm_engine.ops.gated_delta_rule import (
    gated_delta_rule_chunked,
    gated_delta_rule_recurrent,
    gated_delta_rule_reference,
)

LENGTHS = [1, 2, 5, 63, 64, 65, 127, 200]
HEADS = [
    pytest.param((2, 2), id="one value head a key head"),
    pytest.param((2, 4), id="two value heads a key head"),
    pytest.param((1, 3), id="three value heads a key head"),
]


class Inputs(NamedTuple):
    """The arguments of the rule, in order."""

    query: Tensor
    key: Tensor
    value: Tensor
    decay: Tensor
    beta: Tensor
    state: Tensor


def random_inputs(
    num_tokens: int,
    heads: tuple[int, int] = (2, 4),
    key_dim: int = 16,
    value_dim: int = 24,
) -> Inputs:
    """Draw a stretch that meets a memory which is not empty."""
    generator = torch.Generator().manual_seed(42)
    num_key_heads, num_value_heads = heads

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return Inputs(
        query=draw(num_tokens, num_key_heads, key_dim),
        key=draw(num_tokens, num_key_heads, key_dim),
        value=draw(num_tokens, num_value_heads, value_dim),
        decay=-draw(num_tokens, num_value_heads).abs() * 0.2,
        beta=draw(num_tokens, num_value_heads).sigmoid(),
        state=draw(num_value_heads, key_dim, value_dim),
    )


type Form = Callable[..., Tensor]


def applied(form: Form, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Run one of our forms, and return its output and the memory after it; the one before stays as it is."""
    *rows, state = inputs
    state = state.clone()
    return form(*rows, state), state


def published(
    form: Callable[..., tuple[Tensor, Tensor]], inputs: Inputs
) -> tuple[Tensor, Tensor]:
    """Run one of transformers' forms on one sequence."""
    output, state = form(
        *(tensor[None] for tensor in inputs[:3]),
        g=inputs.decay[None],
        beta=inputs.beta[None],
        initial_state=inputs.state[None],
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )
    return output[0], state[0]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(torch_recurrent_gated_delta_rule, id="token by token"),
        pytest.param(torch_chunk_gated_delta_rule, id="chunked"),
    ],
)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("num_tokens", [1, 5, 65])
def test_reference_equals_published(
    num_tokens: int, heads: tuple[int, int], form: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    inputs = random_inputs(num_tokens, heads)
    assert_close(
        applied(gated_delta_rule_reference, *inputs),
        published(form, inputs),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("num_tokens", LENGTHS)
def test_chunked_equals_reference(num_tokens: int, heads: tuple[int, int]) -> None:
    inputs = random_inputs(num_tokens, heads)
    assert_close(
        applied(gated_delta_rule_chunked, *inputs),
        applied(gated_delta_rule_reference, *inputs),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("heads", HEADS)
def test_recurrent_equals_reference(heads: tuple[int, int]) -> None:
    inputs = random_inputs(1, heads)
    assert_close(
        applied(gated_delta_rule_recurrent, *inputs),
        applied(gated_delta_rule_reference, *inputs),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("num_tokens", LENGTHS)
def test_prefill_equals_decode(num_tokens: int) -> None:
    inputs = random_inputs(num_tokens)
    state, outputs = inputs.state, []
    for token in range(num_tokens):
        rows = [tensor[token : token + 1] for tensor in inputs[:5]]
        output, state = applied(gated_delta_rule_recurrent, *rows, state)
        outputs.append(output)
    assert_close(
        applied(gated_delta_rule_chunked, *inputs),
        (torch.cat(outputs), state),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("split", [1, 2, 3, 63, 64, 65, 128, 199])
def test_split_anywhere_equals_whole(split: int) -> None:
    inputs = random_inputs(200)
    first, state = applied(
        gated_delta_rule_chunked,
        *(tensor[:split] for tensor in inputs[:5]),
        inputs.state,
    )
    second, state = applied(
        gated_delta_rule_chunked, *(tensor[split:] for tensor in inputs[:5]), state
    )
    assert_close(
        (torch.cat((first, second)), state),
        applied(gated_delta_rule_chunked, *inputs),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("decay", "beta"),
    [
        pytest.param(0.0, 1.0, id="forgets nothing, overwrites"),
        pytest.param(0.0, 0.0, id="forgets nothing, writes nothing"),
        pytest.param(-300.0, 1.0, id="forgets everything"),
    ],
)
def test_extreme_gates(decay: float, beta: float) -> None:
    inputs = random_inputs(130)
    inputs = inputs._replace(
        decay=torch.full_like(inputs.decay, decay),
        beta=torch.full_like(inputs.beta, beta),
    )
    assert_close(
        applied(gated_delta_rule_chunked, *inputs),
        applied(gated_delta_rule_reference, *inputs),
        rtol=1e-3,
        atol=1e-4,
    )


def test_repeated_keys_stay_stable() -> None:
    inputs = random_inputs(130)
    same_key = inputs.key[:1].expand_as(inputs.key)
    inputs = inputs._replace(
        key=same_key,
        decay=torch.zeros_like(inputs.decay),
        beta=torch.ones_like(inputs.beta),
    )
    assert_close(
        applied(gated_delta_rule_chunked, *inputs),
        applied(gated_delta_rule_reference, *inputs),
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("form", "num_tokens"),
    [
        pytest.param(gated_delta_rule_chunked, 70, id="chunked"),
        pytest.param(gated_delta_rule_recurrent, 1, id="recurrent"),
        pytest.param(gated_delta_rule_reference, 3, id="reference"),
    ],
)
def test_rows_are_not_written_and_bits_repeat(form: Form, num_tokens: int) -> None:
    inputs = random_inputs(num_tokens)
    before = [tensor.clone() for tensor in inputs]
    first, second = applied(form, *inputs), applied(form, *inputs)
    assert all(map(torch.equal, inputs, before, strict=True))
    assert all(map(torch.equal, first, second, strict=True))


@pytest.mark.parametrize(
    ("form", "num_tokens"),
    [
        pytest.param(gated_delta_rule_chunked, 70, id="chunked"),
        pytest.param(gated_delta_rule_recurrent, 1, id="recurrent"),
    ],
)
def test_state_is_float32_in_bfloat16_runs(form: Form, num_tokens: int) -> None:
    inputs = random_inputs(num_tokens)
    rounded = Inputs(*(tensor.bfloat16() for tensor in inputs[:3]), *inputs[3:])
    output, state = applied(form, *rounded)
    expected, expected_state = applied(
        gated_delta_rule_reference, *(tensor.float() for tensor in rounded)
    )
    assert (output.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert_close(output, expected.bfloat16())
    assert_close(state, expected_state, rtol=1e-4, atol=1e-5)

"""The causal convolution: reference against torch's own, fast forms against the reference."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from local_llm_engine.ops.causal_conv import (
    causal_conv,
    causal_conv_one_row,
    causal_conv_reference,
)

CHANNELS = 12


def random_inputs(num_tokens: int, kernel: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Draw rows, weight and the inputs of the tokens before."""
    generator = torch.Generator().manual_seed(42)
    return (
        torch.randn(num_tokens, CHANNELS, generator=generator),
        torch.randn(kernel, CHANNELS, generator=generator),
        torch.randn(kernel - 1, CHANNELS, generator=generator),
    )


def applied(
    form: Callable[..., Tensor], rows: Tensor, weight: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Run a form, and return its output and the state after it; the one before stays as it is."""
    state = state.clone()
    return form(rows, weight, state), state


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("num_tokens", [1, 2, 3, 64, 65])
def test_reference_equals_published(num_tokens: int, kernel: int) -> None:
    rows, weight, state = random_inputs(num_tokens, kernel)
    window = torch.cat((state, rows))
    expected = functional.silu(
        functional.conv1d(window.t()[None], weight.t()[:, None], groups=CHANNELS)
    )[0].t()
    output, new_state = applied(causal_conv_reference, rows, weight, state)
    assert_close(output, expected)
    assert torch.equal(new_state, window[-(kernel - 1) :])


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("num_tokens", [1, 2, 3, 64, 65])
def test_fast_equals_reference(num_tokens: int, kernel: int) -> None:
    inputs = random_inputs(num_tokens, kernel)
    assert_close(applied(causal_conv, *inputs), applied(causal_conv_reference, *inputs))


@pytest.mark.parametrize("kernel", [2, 4])
def test_one_row_equals_reference(kernel: int) -> None:
    inputs = random_inputs(1, kernel)
    assert_close(
        applied(causal_conv_one_row, *inputs), applied(causal_conv_reference, *inputs)
    )


@pytest.mark.parametrize("split", [1, 2, 3, 5, 9])
def test_split_anywhere_equals_whole(split: int) -> None:
    rows, weight, state = random_inputs(10)
    first, carried = applied(causal_conv, rows[:split], weight, state)
    second, carried = applied(causal_conv, rows[split:], weight, carried)
    assert_close(
        (torch.cat((first, second)), carried), applied(causal_conv, rows, weight, state)
    )


def test_state_keeps_its_dtype_and_bits() -> None:
    rows, weight, state = random_inputs(2)
    output, new_state = applied(causal_conv, rows.bfloat16(), weight, state.bfloat16())
    assert (output.dtype, new_state.dtype) == (torch.float32, torch.bfloat16)
    assert torch.equal(new_state[1:], rows.bfloat16())

"""Rows in 8 bits: how far they are from those written, and attention over them against the reference."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.ops.attention import (
    attention,
    attention_one_row,
    attention_reference,
)
from local_llm_engine.ops.quantized_rows import QuantizedRows, hadamard, quantize_rows

CPU = torch.device("cpu")


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(42))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6], ids=["small", "usual", "large"])
def test_a_value_is_off_by_half_a_step_at_most(size: float) -> None:
    rows = draw(2, 65, 96) * size
    codes, scales = quantize_rows(rows)
    assert scales.dtype == torch.bfloat16
    assert torch.equal(codes, codes.to(torch.int8).float())
    off = (codes * scales.float()[..., None] - rows).abs()
    assert (off <= 0.50001 * scales.float()[..., None]).all()


def test_rows_of_zeros_stay_zeros() -> None:
    codes, scales = quantize_rows(torch.zeros(2, 3, 64))
    assert not codes.any()
    assert not scales.any()


@pytest.mark.parametrize("size", [5, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hadamard_and_its_inverse(size: int, dtype: torch.dtype) -> None:
    matrix, inverse = hadamard(size, dtype=dtype, device=CPU)
    assert torch.equal(matrix.float() @ inverse.float(), torch.eye(size))
    assert torch.equal(matrix, matrix.t())


@pytest.mark.parametrize("size", [64, 96])
def test_a_large_channel_leaves_the_small_ones_exact(size: int) -> None:
    """The turn leaves less than a fifth of the error that one scale makes without it."""
    keys, query = draw(2, 200, size), draw(size, 1)
    keys[..., 7] += 300
    expected = (keys - keys.mean(1, keepdim=True)) @ query

    def off(turn: Tensor, inverse: Tensor) -> float:
        codes, scales = quantize_rows(keys @ turn)
        products = codes * scales.float()[..., None] @ (inverse @ query)
        centred = products - products.mean(1, keepdim=True)
        return float((centred - expected).norm() / expected.norm())

    turned = off(*hadamard(size, dtype=torch.float32, device=CPU))
    plain = off(torch.eye(size), torch.eye(size))
    assert turned < 0.2 * plain


def quantized(rows: Tensor, *, turn: bool) -> tuple[QuantizedRows, Tensor]:
    """Quantize rows; return them, and what they stand for, in views of longer buffers of garbage."""
    size = rows.shape[-1]
    matrix, inverse = hadamard(size, dtype=torch.float32, device=CPU)
    codes, scales = quantize_rows(rows @ matrix if turn else rows)
    exact = codes * scales.float()[..., None]
    num_heads, prefix, _ = rows.shape
    code_buffer = torch.full((num_heads, prefix + 7, size), 99, dtype=torch.int8)
    scale_buffer = torch.full((num_heads, prefix + 7), torch.nan, dtype=torch.bfloat16)
    code_buffer[:, :prefix], scale_buffer[:, :prefix] = codes, scales
    kept = QuantizedRows(code_buffer, scale_buffer, inverse if turn else None)
    return kept, exact @ inverse if turn else exact


def first(rows: QuantizedRows, length: int) -> QuantizedRows:
    return rows._replace(codes=rows.codes[:, :length], scales=rows.scales[:, :length])


@pytest.mark.parametrize(
    ("num_tokens", "prefix"),
    [(1, 1), (1, 300), (1, 2_100), (2, 2), (65, 265), (300, 300)],
)
@pytest.mark.parametrize("heads", [(4, 4), (6, 2)], ids=["4 of 4", "6 of 2"])
def test_attention_equals_the_reference_on_what_the_codes_stand_for(
    heads: tuple[int, int], num_tokens: int, prefix: int
) -> None:
    num_heads, num_key_heads = heads
    query = draw(num_tokens, num_heads, 32)
    keys, exact_keys = quantized(draw(num_key_heads, prefix, 32), turn=True)
    values, exact_values = quantized(draw(num_key_heads, prefix, 32), turn=False)
    expected = attention_reference(query, exact_keys, exact_values)
    seen = attention(query, first(keys, prefix), first(values, prefix))
    assert_close(seen, expected)
    last = attention_one_row(query[-1:], keys, values, prefix)
    assert_close(last, expected[-1:])


@pytest.mark.parametrize("num_tokens", [1, 65])
def test_bfloat16_within_rounding(num_tokens: int) -> None:
    query = draw(num_tokens, 4, 64).bfloat16()
    keys, exact_keys = quantized(draw(2, 265, 64), turn=True)
    values, exact_values = quantized(draw(2, 265, 64), turn=False)
    assert keys.turn is not None
    keys = keys._replace(turn=keys.turn.bfloat16())
    expected = attention_reference(query.float(), exact_keys, exact_values)
    output = attention(query, first(keys, 265), first(values, 265))
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), expected, rtol=2e-2, atol=2e-2)
    last = attention_one_row(query[-1:], keys, values, 265)
    assert last.dtype == torch.bfloat16
    assert_close(last.float(), expected[-1:], rtol=2e-2, atol=2e-2)

"""Products with packed weights against products with what these stand for, few rows and many."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.weights.linear import Int4Linear, Int8Linear, LinearWeight
from local_llm_engine.weights.quantizing import CODES, SCALES, in_blocks
from local_llm_engine.weights.runtime_matrix import Int4Layout
from tests.engine.numeric import one_thread, poisoned_empty

__all__ = ["one_thread", "poisoned_empty"]

CPU = torch.device("cpu")
NUM_ROWS = [1, 3, 16, 17, 72, 73, 200]
# As the kernels round: inputs, and sums, to bfloat16.
BFLOAT16 = {"rtol": 2e-2, "atol": 2e-2}
FLOAT32 = {"rtol": 1e-5, "atol": 1e-5}
# Kernels for packed weights compute in bfloat16 whatever the model does.
FEW = {torch.float32: BFLOAT16, torch.bfloat16: BFLOAT16}
MANY = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16}


def int8(
    num_rows: int, num_columns: int, dtype: torch.dtype
) -> tuple[Int8Linear, Tensor]:
    torch.manual_seed(3)
    codes = torch.randint(-127, 128, (num_rows, num_columns), dtype=torch.int8)
    scales = (torch.rand(num_rows) * 1e-3).bfloat16()
    weight = codes.float() * scales.float()[:, None]
    return Int8Linear(codes, scales, dtype), weight


def int4(
    num_rows: int,
    num_columns: int,
    dtype: torch.dtype,
    layout: Int4Layout,
) -> tuple[Int4Linear, Tensor]:
    torch.manual_seed(3)
    codes = torch.randint(0, 16, (num_rows, num_columns), dtype=torch.uint8)
    scales = torch.randn(num_columns // 32, num_rows, 2).mul_(1e-2).bfloat16()
    by_row = scales.float().transpose(0, 1)
    grouped = (codes.float() - 8).view(num_rows, -1, 32)
    weight = (grouped * by_row[..., :1] + by_row[..., 1:]).flatten(1)
    linear = Int4Linear(
        in_blocks(codes, layout.block).contiguous(),
        scales,
        dtype,
        block=layout.block,
        has_kernel=layout.has_kernel,
    )
    return linear, weight


def check(
    linear: LinearWeight,
    weight: Tensor,
    num_rows: int,
    dtype: torch.dtype,
    tolerance: dict[str, float],
) -> None:
    """Compare products without and with a bias; rows are such that products are about 1."""
    rows = torch.randn(num_rows, weight.shape[1]).mul_(0.5).to(dtype)
    bias = torch.randn(weight.shape[0]).to(dtype)
    expected = rows.float() @ weight.t()
    product = linear(rows)
    assert product.dtype == dtype
    assert_close(product.float(), expected, **tolerance)
    assert_close(linear(rows, bias).float(), expected + bias.float(), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_int8(num_rows: int, dtype: torch.dtype) -> None:
    linear, weight = int8(72, 96, dtype)
    tolerance = (FEW if num_rows < 17 else MANY)[dtype]
    check(linear, weight, num_rows, dtype, tolerance)


@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_int8_of_columns_that_the_kernel_cannot_take(num_rows: int) -> None:
    linear, weight = int8(40, 56, torch.float32)
    check(linear, weight, num_rows, torch.float32, FLOAT32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_int4(num_rows: int, dtype: torch.dtype) -> None:
    linear, weight = int4(128, 96, dtype, Int4Layout.of(CPU))
    tolerance = (FEW if num_rows < 73 else MANY)[dtype]
    check(linear, weight, num_rows, dtype, tolerance)


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("num_rows", NUM_ROWS)
def test_int4_without_a_kernel(num_rows: int, block: int) -> None:
    layout = Int4Layout(block=block, has_kernel=False)
    linear, weight = int4(128, 96, torch.float32, layout)
    check(linear, weight, num_rows, torch.float32, FLOAT32)


@pytest.mark.parametrize("num_rows", [1, 70])
def test_matrices_larger_than_a_part(num_rows: int) -> None:
    """Many rows take them part by part, the last of them smaller."""
    for linear, weight in (
        int8(1_100, 1_024, torch.float32),
        int4(1_088, 1_024, torch.float32, Int4Layout(block=64, has_kernel=False)),
    ):
        rows = torch.randn(num_rows, 1_024)
        expected = rows @ weight.t()
        assert_close(linear(rows), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_are_taken(dtype: torch.dtype) -> None:
    indices = torch.tensor([5, 0, 71, 5])
    for linear, weight in (
        int8(72, 56, dtype),
        int4(128, 64, dtype, Int4Layout(block=64, has_kernel=False)),
    ):
        taken = linear.take(indices)
        assert taken.dtype == dtype
        assert_close(taken.float(), weight[indices], rtol=1e-2, atol=1e-3)


def test_one_of_several() -> None:
    layout = Int4Layout.of(CPU)
    pairs = [int4(64, 32, torch.float32, layout), int8(64, 32, torch.float32)]
    for linear, weight in pairs:
        own = {CODES: linear._codes, SCALES: linear._scales}
        stacked = {
            name: torch.stack((torch.zeros_like(tensor), tensor))
            for name, tensor in own.items()
        }
        linear._codes, linear._scales = stacked[CODES], stacked[SCALES]
        check(linear[1], weight, 80, torch.float32, FLOAT32)
        assert not linear[0](torch.randn(70, 32)).any()


def test_equal_rows_in_equal_numbers_give_equal_bits() -> None:
    layout = Int4Layout.of(CPU)
    for linear, weight in (
        int4(128, 96, torch.bfloat16, layout),
        int8(72, 96, torch.bfloat16),
    ):
        for num_rows in NUM_ROWS:
            rows = torch.randn(num_rows, weight.shape[1]).bfloat16()
            assert torch.equal(linear(rows), linear(rows.clone()))

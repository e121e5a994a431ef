"""What the engine asks of its process leaves float32 products exact."""

from collections.abc import Iterator

import pytest
import torch

from local_llm_engine.models.process import (
    multiplies_quicker_by_onednn,
    prepare_process,
)


@pytest.mark.parametrize(
    ("capabilities", "quicker"),
    [
        ({"avx2": True, "avx512_bf16": False}, False),
        ({"avx512_f": True, "avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_f": True, "avx512_bf16": True, "amx_bf16": True}, False),
        ({"avx512_bf16": True, "amx_tile": True}, False),
        ({"bf16": True, "architecture": "aarch64"}, False),
        ({}, False),
    ],
)
def test_onednn_multiplies_float32_where_it_is_quick_and_exact(
    capabilities: dict[str, object], quicker: bool
) -> None:
    assert multiplies_quicker_by_onednn(capabilities) is quicker


@pytest.fixture
def precision_restored() -> Iterator[None]:
    before = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
    yield
    torch.backends.mkldnn.matmul.fp32_precision = before  # type: ignore[attr-defined]


@pytest.mark.usefixtures("precision_restored")
def test_products_of_a_prepared_process_are_float32() -> None:
    prepare_process()
    generator = torch.Generator().manual_seed(1)
    left, right = (
        torch.randn(16, 128, 128, generator=generator, dtype=torch.float32)
        for _ in range(2)
    )
    exact = left.double() @ right.double()
    torch.testing.assert_close((left @ right).double(), exact, rtol=0, atol=1e-4)

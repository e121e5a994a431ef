"""Every format that is computed: the numbers of any bytes equal those of the gguf package, to the last bit."""

import gguf
from gguf import GGMLQuantizationType as Type
import numpy as np
import pytest
import torch

from local_llm_engine.weights.gguf_blocks import SUPPORTED, as_floats, dequantize_rows
from local_llm_engine.weights.gguf_types import BLOCK_TYPES

from .gguf_packing import FORMATS, pack, representable


def test_sizes_of_blocks_are_those_of_the_package() -> None:
    ours = {
        Type(number): (kind.block_elements, kind.block_bytes)
        for number, kind in BLOCK_TYPES.items()
    }
    assert ours == gguf.GGML_QUANT_SIZES
    assert all(Type(number).name == kind.name for number, kind in BLOCK_TYPES.items())
    assert {kind.name for kind in FORMATS} == set(SUPPORTED)


@pytest.mark.parametrize("num_blocks", [1, 2, 33])
@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_any_bytes_mean_what_the_package_says(kind: Type, num_blocks: int) -> None:
    """Also numbers that are none, and infinite ones."""
    rng = np.random.default_rng(num_blocks)
    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    factor = 8 if size == 1 else 1
    stored = rng.integers(0, 256, (5, num_blocks * nbytes * factor), np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = gguf.dequantize(stored.copy(), kind).reshape(5, -1)
    ours = dequantize_rows(torch.from_numpy(stored), kind.name)
    assert ours.dtype == torch.float32
    assert np.array_equal(ours.numpy(), expected, equal_nan=True)
    assert np.isfinite(expected).any()


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_values_that_a_format_holds_come_back(kind: Type) -> None:
    values = np.random.default_rng(0).normal(0, 0.2, (6, 512)).astype(np.float32)
    exact = representable(values, kind)
    packed = pack(exact, kind).view(np.uint8).reshape(6, -1)
    assert np.array_equal(
        dequantize_rows(torch.from_numpy(packed), kind.name).numpy(), exact
    )
    assert np.abs(exact - values).mean() < 0.07


def test_plain_numbers_are_not_copied() -> None:
    stored = torch.arange(16, dtype=torch.uint8).view(2, 8)
    values = as_floats(stored, "F16")
    assert values is not None
    assert values.data_ptr() == stored.data_ptr()
    assert as_floats(stored, "Q8_0") is None

"""The way of tensors to the device: mapped where nothing changes, copied once where something does."""

from pathlib import Path

import pytest
from safetensors.torch import save_file
import torch
from torch import Tensor

from local_llm_engine.weights.linear import LinearWeight, PlainLinear
from local_llm_engine.weights.loader import WeightLoader
from local_llm_engine.weights.quantized import WeightSource
from local_llm_engine.weights.safetensors import SafetensorsFolder

from .test_safetensors import mapped_addresses

FILE_NAME = "model.safetensors"


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, Tensor]:
    """Write two matrices and a vector in bfloat16."""
    generator = torch.Generator().manual_seed(42)
    tensors = {
        "block.one.weight": torch.randn(6, 8, generator=generator).bfloat16(),
        "block.two.weight": torch.randn(3, 8, generator=generator).bfloat16(),
        "block.norm": torch.randn(8, generator=generator).bfloat16(),
    }
    save_file(tensors, tmp_path / FILE_NAME)
    return tensors


def loader_of(folder: Path, dtype: torch.dtype) -> WeightLoader:
    """Load for the CPU from below "block."."""
    return WeightLoader(
        WeightSource(SafetensorsFolder.open(folder)),
        device=torch.device("cpu"),
        dtype=dtype,
    ).within("block.")


def weight_of(linear: LinearWeight) -> Tensor:
    """The matrix of one that is plain."""
    assert isinstance(linear, PlainLinear)
    return linear.weight


def is_mapped(tensor: Tensor, folder: Path) -> bool:
    """Whether a tensor's bytes are the file's."""
    return any(
        tensor.data_ptr() in addresses
        for addresses in mapped_addresses(folder / FILE_NAME)
    )


def test_matrix_in_the_file_s_dtype_stays_mapped(
    tmp_path: Path, stored: dict[str, Tensor]
) -> None:
    matrix = weight_of(loader_of(tmp_path, torch.bfloat16).linear("one.weight"))
    assert torch.equal(matrix, stored["block.one.weight"])
    assert is_mapped(matrix, tmp_path)


def test_matrix_is_converted(tmp_path: Path, stored: dict[str, Tensor]) -> None:
    matrix = weight_of(loader_of(tmp_path, torch.float32).linear("one.weight"))
    assert torch.equal(matrix, stored["block.one.weight"].float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_vector_is_float32_and_no_view_of_the_file(
    tmp_path: Path, stored: dict[str, Tensor], dtype: torch.dtype
) -> None:
    vector = loader_of(tmp_path, dtype).vector("norm")
    assert torch.equal(vector, stored["block.norm"].float())
    assert not is_mapped(vector, tmp_path)


def test_matrices_are_joined_where_they_are_copied(
    tmp_path: Path, stored: dict[str, Tensor]
) -> None:
    (joined,) = loader_of(tmp_path, torch.float32).linears(["one.weight", "two.weight"])
    expected = torch.cat(
        (stored["block.one.weight"], stored["block.two.weight"])
    ).float()
    assert torch.equal(weight_of(joined), expected)


def test_matrices_are_not_joined_where_they_stay_mapped(
    tmp_path: Path, stored: dict[str, Tensor]
) -> None:
    linears = loader_of(tmp_path, torch.bfloat16).linears(["one.weight", "two.weight"])
    matrices = [weight_of(linear) for linear in linears]
    assert [tuple(matrix.shape) for matrix in matrices] == [(6, 8), (3, 8)]
    assert all(is_mapped(matrix, tmp_path) for matrix in matrices)

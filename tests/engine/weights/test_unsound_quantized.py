"""Unsound parts of quantized matrices: each is named, with what would be right."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from local_llm_engine.errors import WeightFormatError

from .quantizing import fp8
from .test_quantized import CASES, FP8, GPTQ, SHAPE, source_of


def changed(**changes: Tensor | None) -> Callable[[dict[str, Tensor]], None]:
    def change(tensors: dict[str, Tensor]) -> None:
        for name, tensor in changes.items():
            del tensors[name]
            if tensor is not None:
                tensors[name] = tensor

    return change


REFUSED = [
    pytest.param("gptq", {"scales": None}, r"'up\.scales' is missing; 'up\.qweight' cannot be read", id="gptq: scales"),
    pytest.param("gptq", {"qzeros": None}, r"'up\.qzeros' is missing; 'up\.qweight' cannot be read", id="gptq: zeros"),
    pytest.param(
        "gptq", {"scales": torch.ones(3, 72)}, r"'up\.scales' has the shape \[3, 72\]; .* needs \[4, 72\]",
        id="gptq: a group too few",
    ),
    pytest.param(
        "gptq", {"scales": torch.ones(4, 72, dtype=torch.int32)}, r"'up\.scales' has the dtype I32; right is BF16",
        id="gptq: scales in whole numbers",
    ),
    pytest.param(
        "gptq", {"qzeros": torch.zeros(4, 72, dtype=torch.int32)}, r"'up\.qzeros' has the shape .* needs \[4, 9\]",
        id="gptq: zeros that are not packed",
    ),
    pytest.param(
        "gptq", {"qweight": torch.zeros(8, 72)}, r"'up\.qweight' is F32 of the shape \[8, 72\]; right is a matrix of I32",
        id="gptq: codes in float",
    ),
    pytest.param(
        "gptq", {"qweight": torch.zeros(8, 72, 1, dtype=torch.int32)}, r"'up\.qweight' is I32 of the shape \[8, 72, 1\]",
        id="gptq: codes in three dimensions",
    ),
    pytest.param(
        "gptq", {"qweight": torch.zeros(0, 72, dtype=torch.int32)}, r"'up\.qweight' is I32 of the shape \[0, 72\]",
        id="gptq: no codes",
    ),
    pytest.param(
        "gptq", {"g_idx": torch.full((64,), 4, dtype=torch.int32)}, r"'up\.g_idx' names groups from 4 to 4; there are 4",
        id="gptq: a group that is not there",
    ),
    pytest.param(
        "gptq", {"g_idx": torch.full((64,), -1, dtype=torch.int32)}, r"'up\.g_idx' names groups from -1",
        id="gptq: a group before the first",
    ),
    pytest.param(
        "gptq", {"g_idx": torch.zeros(63, dtype=torch.int32)}, r"'up\.g_idx' has the shape \[63\]; .* needs \[64\]",
        id="gptq: groups of too few columns",
    ),
    pytest.param("awq", {"qzeros": None}, r"'up\.qzeros' is missing", id="awq: zeros"),
    pytest.param("awq", {"scales": None}, r"'up\.scales' is missing", id="awq: scales"),
    pytest.param(
        "awq", {"scales": torch.ones(4, 64)}, r"'up\.scales' has the shape \[4, 64\]; .* needs \[4, 72\]",
        id="awq: scales of too few rows",
    ),
    pytest.param(
        "compressed-tensors with zeros", {"weight_zero_point": None}, r"'up\.weight_zero_point' is missing",
        id="compressed-tensors: zeros",
    ),
    pytest.param(
        "compressed-tensors", {"weight_scale": None}, r"'up\.weight_scale' is missing", id="compressed-tensors: scale",
    ),
    pytest.param(
        "compressed-tensors", {"weight_shape": torch.tensor([72, 60])},
        r"'up\.weight_shape' says \[72, 60\]; its codes are \[72, 64\]", id="compressed-tensors: another shape",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "changes", "problem"), REFUSED)
def test_unsound_parts_are_named(
    tmp_path: Path, case: str, changes: dict[str, Tensor | None], problem: str
) -> None:
    scheme, make = CASES[case]
    tensors = dict(make()[1].tensors)
    changed(**changes)(tensors)
    with pytest.raises(WeightFormatError, match=problem):
        source_of(tmp_path, scheme, tensors).stored("up.weight")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"weight_scale_inv": None},
            r"'up\.weight_scale_inv' is missing; 'up\.weight' cannot be read without it",
        ),
        (
            {"weight_scale_inv": torch.ones(3, 2)},
            r"has the shape \[3, 2\]; beside 'up\.weight' it needs \[3, 3\]",
        ),
        (
            {"weight_scale_inv": torch.ones(3, 3, dtype=torch.float8_e4m3fn)},
            "has the dtype F8_E4M3; right is BF16 or F16 or F32",
        ),
    ],
    ids=["no scale", "a block too few", "scales in eight bits"],
)
def test_unsound_fp8_is_named(
    tmp_path: Path, changes: dict[str, Tensor | None], problem: str
) -> None:
    tensors = dict(fp8(torch.randn(SHAPE), (32, 24)).tensors)
    changed(**changes)(tensors)
    with pytest.raises(WeightFormatError, match=problem):
        source_of(tmp_path, FP8, tensors)


def test_quantized_and_not_at_once_is_refused(tmp_path: Path) -> None:
    _, stored = CASES["gptq"][1]()
    with pytest.raises(WeightFormatError, match="is there both quantized and not"):
        source_of(tmp_path, GPTQ, {**stored.tensors, "weight": torch.zeros(SHAPE)})

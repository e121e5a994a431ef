"""Quantized formats: every matrix is what its format's formula says, however it is cut, and unsound ones are refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

from local_llm_engine.weights import quantized
from local_llm_engine.weights.awq import AwqScheme
from local_llm_engine.weights.fp8 import Fp8Scheme
from local_llm_engine.weights.gptq import GptqScheme
from local_llm_engine.weights.int4 import Int4Matrix
from local_llm_engine.weights.loader import WeightLoader
from local_llm_engine.weights.packed_int4 import PackedInt4Scheme
from local_llm_engine.weights.quantized import Scheme, WeightSource
from local_llm_engine.weights.safetensors import SafetensorsFolder

from .quantizing import (
    GROUP,
    Codes,
    Quantized,
    awq,
    compressed_tensors,
    fp8,
    gptq,
    random_codes,
)
from .test_loader import weight_of

SHAPE = (72, 64)
GPTQ = GptqScheme(group_size=GROUP, stored_less_one=True)
SYMMETRIC = PackedInt4Scheme(group_size=GROUP, symmetric=True)
ASYMMETRIC = PackedInt4Scheme(group_size=GROUP, symmetric=False)
AWQ = AwqScheme(group_size=GROUP)
FP8 = Fp8Scheme(block_rows=32, block_columns=24)

type Case = tuple[Scheme, Callable[[], tuple[Codes, Quantized]]]


def int4_cases() -> Mapping[str, Case]:
    """Every int4 format in every form that it is found in."""

    def made(
        pack: Callable[[Codes], Quantized], **how: Any
    ) -> Callable[[], tuple[Codes, Quantized]]:
        def make() -> tuple[Codes, Quantized]:
            torch.manual_seed(1)
            codes = random_codes(SHAPE, **how)
            return codes, pack(codes)

        return make

    whole = {"group_size": SHAPE[1]}
    return {
        "gptq": (GPTQ, made(gptq)),
        "gptq without a list of groups": (GPTQ, made(lambda codes: gptq(codes, with_groups=False))),
        "gptq, columns in another order": (GPTQ, made(gptq, shuffled=True)),
        "gptq, second version": (
            GptqScheme(group_size=GROUP, stored_less_one=False),
            made(lambda codes: gptq(codes, version=2)),
        ),
        "gptq, a row is a group": (GptqScheme(group_size=None, stored_less_one=True), made(gptq, **whole)),
        "awq": (AWQ, made(awq)),
        "awq, a row is a group": (AwqScheme(group_size=None), made(awq, **whole)),
        "compressed-tensors": (
            SYMMETRIC,
            made(lambda codes: compressed_tensors(codes, symmetric=True), symmetric=True, dtype=torch.bfloat16),
        ),
        "compressed-tensors with zeros": (
            ASYMMETRIC,
            made(lambda codes: compressed_tensors(codes, symmetric=False)),
        ),
        "compressed-tensors, columns in another order": (
            ASYMMETRIC,
            made(lambda codes: compressed_tensors(codes, symmetric=False, with_groups=True), shuffled=True),
        ),
        "compressed-tensors, a row is a group": (
            PackedInt4Scheme(group_size=None, symmetric=True),
            made(lambda codes: compressed_tensors(codes, symmetric=True), symmetric=True, **whole),
        ),
    }  # fmt: skip


CASES = int4_cases()


def source_of(
    folder: Path, scheme: Scheme, tensors: Mapping[str, Tensor]
) -> WeightSource:
    """Write the tensors of a module "up" and read them."""
    named = {f"up.{ending}": tensor for ending, tensor in tensors.items()}
    save_file(named, folder / "model.safetensors")
    return WeightSource(SafetensorsFolder.open(folder), scheme)


@pytest.mark.parametrize("case", CASES)
def test_int4_equals_formula(tmp_path: Path, case: str) -> None:
    scheme, make = CASES[case]
    _, stored = make()
    source = source_of(tmp_path, scheme, stored.tensors)
    assert source.infos["up.weight"].shape == SHAPE
    assert source.infos.keys() == {"up.weight"}
    assert torch.equal(source.tensor("up.weight"), stored.weight)


@pytest.mark.parametrize("case", CASES)
def test_rows_lie_one_behind_the_other(tmp_path: Path, case: str) -> None:
    """Whatever lies how in the file: whoever quantizes anew takes them apart in place."""
    scheme, make = CASES[case]
    matrix = source_of(tmp_path, scheme, make()[1].tensors).stored("up.weight")
    assert isinstance(matrix, Int4Matrix)
    assert matrix.rows(0, 72).is_contiguous()


@pytest.mark.parametrize("case", CASES)
def test_codes_scales_and_zeros_can_be_taken_over(tmp_path: Path, case: str) -> None:
    """As they are, for a format of our own."""
    scheme, make = CASES[case]
    codes, stored = make()
    matrix = source_of(tmp_path, scheme, stored.tensors).stored("up.weight")
    assert isinstance(matrix, Int4Matrix)
    assert torch.equal(matrix.codes(0, 72), codes.codes.to(torch.uint8))
    assert torch.equal(matrix.scales(0, 72), codes.scales.float())
    assert torch.equal(matrix.zeros(0, 72), codes.zeros.to(torch.uint8))
    assert matrix.groups_are_runs is ("another order" not in case)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 8), (8, 9), (16, 47), (64, 72), (8, 72)]
)
@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_the_whole(
    tmp_path: Path, case: str, start: int, end: int
) -> None:
    scheme, make = CASES[case]
    _, stored = make()
    matrix = source_of(tmp_path, scheme, stored.tensors).stored("up.weight")
    assert isinstance(matrix, Int4Matrix)
    assert torch.equal(matrix.rows(start, end), stored.weight[start:end])


@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ((64, 48), (32, 24)),
        ((70, 50), (32, 24)),
        ((256, 384), (128, 128)),
        ((5, 3), (128, 128)),
    ],
    ids=str,
)
def test_fp8_equals_formula(
    tmp_path: Path, shape: tuple[int, int], block: tuple[int, int]
) -> None:
    torch.manual_seed(1)
    stored = fp8(torch.randn(shape), block)
    scheme = Fp8Scheme(block_rows=block[0], block_columns=block[1])
    source = source_of(tmp_path, scheme, stored.tensors)
    assert torch.equal(source.tensor("up.weight"), stored.weight)


def test_fp8_equals_transformers(tmp_path: Path) -> None:
    torch.manual_seed(1)
    stored = fp8(torch.randn(256, 384))
    source = source_of(
        tmp_path, Fp8Scheme(block_rows=128, block_columns=128), stored.tensors
    )
    oracle: Any = Fp8Dequantize(None)
    expected = oracle._dequantize_one(
        stored.tensors["weight"], stored.tensors["weight_scale_inv"].float()
    )
    assert torch.equal(source.tensor("up.weight"), expected.float())


@pytest.mark.parametrize("case", ["gptq", "awq", "compressed-tensors with zeros"])
def test_a_part_at_a_time_is_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(quantized, "ROWS_AT_ONCE", 32)
    scheme, make = CASES[case]
    _, stored = make()
    source = source_of(tmp_path, scheme, stored.tensors)
    assert torch.equal(source.tensor("up.weight"), stored.weight)


def test_fp8_a_part_at_a_time_is_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized, "ROWS_AT_ONCE", 40)
    stored = fp8(torch.randn(SHAPE), (32, 24))
    assert torch.equal(
        source_of(tmp_path, FP8, stored.tensors).tensor("up.weight"), stored.weight
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_loader_joins_what_is_quantized_and_what_is_not(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    """A matrix that quantizing left out stands beside by its plain name."""
    _, stored = CASES["gptq"][1]()
    plain = torch.randn(3, SHAPE[1]).bfloat16()
    tensors = {f"up.{ending}": tensor for ending, tensor in stored.tensors.items()}
    save_file(tensors | {"gate.weight": plain}, tmp_path / "model.safetensors")
    source = WeightSource(SafetensorsFolder.open(tmp_path), GPTQ)
    loader = WeightLoader(source, device=torch.device("cpu"), dtype=dtype)
    (joined,) = loader.linears(["up.weight", "gate.weight"])
    expected = torch.cat((stored.weight.to(dtype), plain.to(dtype)))
    assert torch.equal(weight_of(joined), expected)
    assert torch.equal(weight_of(loader.linear("up.weight")), stored.weight.to(dtype))
    assert_close(loader.vector("up.weight"), stored.weight)
    assert torch.equal(source.tensor("gate.weight"), plain)


def test_bytes_are_those_of_all_parts(tmp_path: Path) -> None:
    _, stored = CASES["awq"][1]()
    info = source_of(tmp_path, AWQ, stored.tensors).infos["up.weight"]
    assert info.nbytes == sum(tensor.nbytes for tensor in stored.tensors.values())
    assert info.num_elements == 72 * 64

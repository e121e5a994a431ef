"""Our own formats: how near to a matrix they come, and what of a checkpoint's is taken over."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gguf import GGMLQuantizationType
from gguf.quants import dequantize as gguf_dequantize, quantize as gguf_quantize
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.weights import quantizing
from local_llm_engine.weights.awq import AwqScheme
from local_llm_engine.weights.gptq import GptqScheme
from local_llm_engine.weights.linear import Int4Linear
from local_llm_engine.weights.packed_int4 import PackedInt4Scheme
from local_llm_engine.weights.quantized import QuantizedMatrix, Scheme
from local_llm_engine.weights.quantizing import (
    CODES,
    SCALES,
    Format,
    Parts,
    format_bytes,
    in_blocks,
    part_shapes,
    quantize,
    takes_over,
)
from tests.engine.numeric import one_thread, poisoned_empty

from .quantizing import Codes, Quantized, awq, compressed_tensors, gptq, random_codes
from .test_quantized import source_of

__all__ = ["one_thread", "poisoned_empty"]

BLOCK = 64
SHAPE = (128, 256)


def parts_of(stored: Tensor | QuantizedMatrix, weights: Format) -> Parts:
    return quantize(
        lambda: stored, tuple(stored.shape), weights, block=BLOCK, let_go=lambda: None
    )


def weight_of(parts: Parts, weights: Format) -> Tensor:
    """What parts stand for, in float32."""
    if weights == "int8":
        return parts[CODES].float() * parts[SCALES].float()[..., None]
    linear = Int4Linear(
        parts[CODES], parts[SCALES], torch.float32, block=BLOCK, has_kernel=False
    )
    return linear.columns(0, parts[SCALES].shape[1], torch.float32).t()


DISTRIBUTIONS: Mapping[str, Callable[[], Tensor]] = MappingProxyType(
    {
        "normal": lambda: torch.randn(SHAPE),
        "with outliers": lambda: torch.distributions.StudentT(4.0).sample(SHAPE),
        "of one sign": lambda: torch.rand(SHAPE) + 1,
    }
)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_int4_is_nearer_than_what_others_make_in_as_many_codes(kind: str) -> None:
    torch.manual_seed(1)
    weight = DISTRIBUTIONS[kind]() * 0.02
    own = weight_of(parts_of(weight, "int4"), "int4")
    error = (own - weight).square().mean()
    for other in (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1):
        their = gguf_dequantize(gguf_quantize(weight.numpy(), other), other)
        assert error < (torch.from_numpy(their) - weight).square().mean()


def test_int8_is_within_half_a_step() -> None:
    torch.manual_seed(1)
    weight = torch.randn(SHAPE) * torch.logspace(-6, 2, SHAPE[0])[:, None]
    error = (weight_of(parts_of(weight, "int8"), "int8") - weight).abs().amax(1)
    assert bool((error <= weight.abs().amax(1) / 127 * 0.51).all())


@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_rows_of_equal_weights_stay(weights: Format) -> None:
    """Nothing is divided by a range of 0."""
    weight = torch.randn(SHAPE)
    weight[:3] = torch.tensor([0.0, 0.5, -2.0])[:, None]
    exact = weight_of(parts_of(weight, weights), weights)[:3]
    assert_close(exact, weight[:3], rtol=1e-2, atol=0)


def test_a_matrix_of_int4_codes_is_found_again() -> None:
    """What was quantized before by groups of 32 loses nothing but the rounding of its scales."""
    codes = random_codes(SHAPE, group_size=32)
    error = (weight_of(parts_of(codes.weight, "int4"), "int4") - codes.weight).square()
    assert error.mean() < codes.weight.square().mean() * 1e-3


GROUPED: Mapping[str, tuple[Callable[[int], Scheme], Callable[[Codes], Quantized]]] = (
    MappingProxyType(
        {
            "gptq": (
                lambda size: GptqScheme(group_size=size, stored_less_one=True),
                gptq,
            ),
            "awq": (lambda size: AwqScheme(group_size=size), awq),
            "compressed-tensors": (
                lambda size: PackedInt4Scheme(group_size=size, symmetric=False),
                lambda codes: compressed_tensors(codes, symmetric=False),
            ),
        }
    )
)


@pytest.mark.parametrize("group_size", [32, 128, 256])
@pytest.mark.parametrize("kind", GROUPED)
def test_a_checkpoint_s_codes_are_taken_over(
    tmp_path: Path, kind: str, group_size: int
) -> None:
    """As they are; scale and zero are the checkpoint's, rounded."""
    torch.manual_seed(1)
    scheme, pack = GROUPED[kind]
    codes = random_codes(SHAPE, group_size=group_size)
    source = source_of(tmp_path, scheme(group_size), pack(codes).tensors)
    stored = source.stored("up.weight")
    assert takes_over(stored)
    assert not isinstance(stored, Tensor)
    parts = parts_of(stored, "int4")
    scales = codes.scales.float()
    middles = (8 - codes.zeros) * scales
    expected = torch.stack((scales, middles), dim=-1).transpose(0, 1).bfloat16()
    assert torch.equal(
        parts[SCALES], expected.repeat_interleave(group_size // 32, dim=0)
    )
    assert torch.equal(parts[CODES], in_blocks(codes.codes.to(torch.uint8), BLOCK))


@pytest.mark.parametrize(
    "how",
    [{"group_size": 16}, {"group_size": 32, "shuffled": True}, {"group_size": 96}],
    ids=["smaller groups", "columns in another order", "a last group cut short"],
)
def test_other_groups_are_quantized_anew(tmp_path: Path, how: dict[str, Any]) -> None:
    torch.manual_seed(1)
    codes = random_codes(SHAPE, **how)
    scheme = GptqScheme(group_size=how["group_size"], stored_less_one=True)
    stored = source_of(tmp_path, scheme, gptq(codes).tensors).stored("up.weight")
    assert not takes_over(stored)
    assert not isinstance(stored, Tensor)
    error = weight_of(parts_of(stored, "int4"), "int4") - codes.weight
    assert error.square().mean() < codes.weight.square().mean() * 0.02


@pytest.mark.parametrize("weights", ["int4", "int8"])
@pytest.mark.parametrize("shape", [(128, 64), (3, 128, 64)], ids=["one", "several"])
def test_parts_have_the_shapes_and_bytes_that_were_said(
    weights: Format, shape: tuple[int, ...]
) -> None:
    parts = parts_of(torch.randn(shape), weights)
    found = {name: (part.dtype, tuple(part.shape)) for name, part in parts.items()}
    assert found == part_shapes(weights, shape, BLOCK)
    assert sum(part.nbytes for part in parts.values()) == format_bytes(weights, shape)


@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_several_are_each_quantized_as_if_alone(weights: Format) -> None:
    torch.manual_seed(1)
    several = torch.randn(3, 128, 64)
    parts = parts_of(several, weights)
    for index, one in enumerate(several):
        for name, part in parts_of(one, weights).items():
            assert torch.equal(parts[name][index], part)


@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_a_large_matrix_is_let_go_in_between(
    monkeypatch: pytest.MonkeyPatch, weights: Format
) -> None:
    """Piece by piece, and the pieces are those of the whole."""
    weight = torch.randn(1_088, 64)
    whole = parts_of(weight, weights)
    monkeypatch.setattr(quantizing, "_WEIGHTS_A_PIECE", 256 * 64)
    opened, let_go = [], []
    pieces = quantizing.quantize(
        lambda: opened.append(1) or weight,
        (1_088, 64),
        weights,
        block=BLOCK,
        let_go=lambda: let_go.append(1),
    )
    assert len(opened) == len(let_go) == 5
    for name, part in whole.items():
        assert torch.equal(pieces[name], part)

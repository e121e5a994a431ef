"""Quantizes matrices for tests, code by code as the formats are published; slow, and written from the other side than the readers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

GROUP = 16
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """The tensors of one quantized matrix by the ends of their names, and what they stand for."""

    tensors: Mapping[str, Tensor]
    weight: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """Codes [O, I], scales and zeros [O, G], and the group of each column."""

    codes: Tensor
    scales: Tensor
    zeros: Tensor
    groups: Tensor

    @property
    def weight(self) -> Tensor:
        """Dequantize."""
        zeros = self.zeros[:, self.groups].float()
        return (self.codes.float() - zeros) * self.scales[:, self.groups].float()


def random_codes(
    shape: tuple[int, int],
    *,
    group_size: int = GROUP,
    dtype: torch.dtype = torch.float16,
    shuffled: bool = False,
    symmetric: bool = False,
) -> Codes:
    """Draw codes, scales and zeros; `shuffled`: groups are no runs of columns."""
    num_rows, num_columns = shape
    count = -(-num_columns // group_size)
    groups = torch.arange(num_columns) // group_size
    zeros = torch.randint(0, 16, (num_rows, count))
    return Codes(
        codes=torch.randint(0, 16, shape),
        scales=(torch.rand(num_rows, count) * 0.05 + 0.001).to(dtype),
        zeros=torch.full_like(zeros, 8) if symmetric else zeros,
        groups=groups[torch.randperm(num_columns)] if shuffled else groups,
    )


def quantize(
    weight: Tensor, *, group_size: int = GROUP, symmetric: bool = False
) -> Codes:
    """Round a matrix to codes."""
    num_rows, num_columns = weight.shape
    count = -(-num_columns // group_size)
    groups = torch.arange(num_columns) // group_size
    scales, zeros = torch.empty(num_rows, count), torch.empty(num_rows, count)
    for group in range(count):
        block = weight[:, groups == group]
        low, high = block.amin(1).clamp(max=0.0), block.amax(1).clamp(min=0.0)
        if symmetric:
            scales[:, group] = block.abs().amax(1) / 7
            zeros[:, group] = 8
        else:
            scales[:, group] = (high - low) / 15
            zeros[:, group] = (-low / scales[:, group]).round()
    scales = scales.half()
    codes = (weight / scales[:, groups].float() + zeros[:, groups]).round().clamp(0, 15)
    return Codes(codes=codes.long(), scales=scales, zeros=zeros.long(), groups=groups)


def gptq(codes: Codes, *, version: int = 1, with_groups: bool = True) -> Quantized:
    stored = codes.zeros - 1 if version == 1 else codes.zeros
    tensors = {
        "qweight": pack_columns(codes.codes.t()),
        "qzeros": pack_rows(stored.t() & 15),
        "scales": codes.scales.t().contiguous(),
    }
    if with_groups:
        tensors["g_idx"] = codes.groups.to(torch.int32)
    return Quantized(tensors=tensors, weight=codes.weight)


def awq(codes: Codes) -> Quantized:
    return Quantized(
        tensors={
            "qweight": pack_rows(codes.codes.t(), _AWQ_ORDER),
            "qzeros": pack_rows(codes.zeros.t(), _AWQ_ORDER),
            "scales": codes.scales.t().contiguous(),
        },
        weight=codes.weight,
    )


def compressed_tensors(
    codes: Codes, *, symmetric: bool, with_groups: bool = False
) -> Quantized:
    tensors = {
        "weight_packed": pack_rows(codes.codes),
        "weight_scale": codes.scales.clone(),
        "weight_shape": torch.tensor(codes.codes.shape),
    }
    if not symmetric:
        tensors["weight_zero_point"] = pack_columns(codes.zeros)
    if with_groups:
        tensors["weight_g_idx"] = codes.groups.to(torch.int32)
    return Quantized(tensors=tensors, weight=codes.weight)


def fp8(weight: Tensor, block: tuple[int, int] = (128, 128)) -> Quantized:
    num_rows, num_columns = weight.shape
    scales = torch.empty(-(-num_rows // block[0]), -(-num_columns // block[1]))
    stored = torch.empty(weight.shape, dtype=torch.float8_e4m3fn)
    exact = torch.empty(weight.shape)
    for row in range(scales.shape[0]):
        for column in range(scales.shape[1]):
            here = (
                slice(row * block[0], (row + 1) * block[0]),
                slice(column * block[1], (column + 1) * block[1]),
            )
            scale = (weight[here].abs().max() / 448).bfloat16().float()
            scales[row, column] = scale
            stored[here] = (weight[here] / scale).to(torch.float8_e4m3fn)
            exact[here] = stored[here].float() * scale
    tensors = {"weight": stored, "weight_scale_inv": scales.bfloat16()}
    return Quantized(tensors=tensors, weight=exact)


def pack_rows(codes: Tensor, order: Iterable[int] = range(8)) -> Tensor:
    """Pack [n, m] to int32 [n, m / 8]; place k of a word holds column `order[k]` of its eight."""
    order = tuple(order)
    missing = -codes.shape[1] % 8
    padded = torch.nn.functional.pad(codes, (0, missing)).tolist()
    words = [
        [
            sum(row[start + own] << (4 * place) for place, own in enumerate(order))
            for start in range(0, len(row), 8)
        ]
        for row in padded
    ]
    signed = [
        [word - (1 << 32) if word >> 31 else word for word in row] for row in words
    ]
    return torch.tensor(signed, dtype=torch.int32)


def pack_columns(codes: Tensor) -> Tensor:
    """Pack [m, n] to int32 [m / 8, n]."""
    return pack_rows(codes.t()).t().contiguous()


CONFIGS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True},
    "compressed-tensors": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "input_activations": None,
                "weights": {
                    "num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP, "symmetric": False,
                },
            }
        },
        "ignore": ["lm_head"],
    },
    "fp8": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [32, 16],
    },
})  # fmt: skip

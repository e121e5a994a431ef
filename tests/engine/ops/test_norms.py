"""Normalizations against transformers' modules."""

import torch
from torch.testing import assert_close
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5RMSNorm,
    Qwen3_5RMSNormGated,
    l2norm,
)

from local_llm_engine.ops.norms import gated_rms_norm, l2_norm, rms_norm

ROWS = torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(42))
GATE = torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(43))
WEIGHT = torch.randn(16, generator=torch.Generator().manual_seed(44))


def test_l2_norm() -> None:
    assert_close(l2_norm(ROWS), l2norm(ROWS))


def test_l2_norm_of_zero_is_zero() -> None:
    assert torch.equal(l2_norm(torch.zeros(2, 8)), torch.zeros(2, 8))


def test_rms_norm() -> None:
    published = Qwen3_5RMSNorm(16, eps=1e-5)
    published.weight.data.copy_(WEIGHT)
    assert_close(rms_norm(ROWS, WEIGHT + 1.0, 1e-5), published(ROWS).detach())


def test_gated_rms_norm() -> None:
    published = Qwen3_5RMSNormGated(16, eps=1e-5)
    published.weight.data.copy_(WEIGHT)
    assert_close(
        gated_rms_norm(ROWS, GATE, WEIGHT, 1e-5), published(ROWS, GATE).detach()
    )


def test_result_is_float32() -> None:
    assert rms_norm(ROWS.bfloat16(), WEIGHT, 1e-6).dtype == torch.float32

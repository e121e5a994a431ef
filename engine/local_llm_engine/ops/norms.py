"""Normalizations over the last axis, in float32 whatever comes in."""

import torch
from torch import Tensor
from torch.nn import functional

L2_EPSILON = 1e-6


def l2_norm(rows: Tensor) -> Tensor:
    """Bring rows [..., D] to unit length: x / sqrt(sum(x^2) + 1e-6), in their own dtype."""
    return rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + L2_EPSILON)


def rms_norm(rows: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    """Compute scale * x / sqrt(mean(x^2) + epsilon) of rows [..., D] (arXiv:1910.07467).

    `scale`: [D], float32, the factor itself: zero-centred weights come here as 1 + w. The result is
    float32; the caller rounds it.
    """
    return functional.rms_norm(rows.float(), scale.shape, scale, epsilon)


def gated_rms_norm(rows: Tensor, gate: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    """Compute rms_norm(rows) * silu(gate), both [..., D]; float32 (arXiv:2412.06464, figure 1)."""
    return rms_norm(rows, scale, epsilon) * functional.silu(gate.float())

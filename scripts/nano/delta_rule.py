"""The gated delta rule for training: many sequences at once, from a state each, with gradients.

Arithmetic as in the engine's chunked form (arXiv:2412.06464, section 3.3), to which a test holds it.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class _UnitLowerInverse(torch.autograd.Function):
    """The inverse of unit lower triangular matrices; its gradient is two products."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:
        identity = torch.eye(matrices.shape[-1]).expand_as(matrices)
        inverse = torch.linalg.solve_triangular(
            matrices, identity, upper=False, unitriangular=True
        )
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -(inverse.mT @ gradients[0] @ inverse.mT)


def gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
    chunk: int,
) -> tuple[Tensor, Tensor]:
    """Read query and key [S, T, H, K], value [S, T, H, V], decay and beta [S, T, H] from state [S, H, K, V].

    Returns what was read, [S, T, H, V], and the states after it; all float32. Rows whose key, value, decay and
    beta are zero change no state.
    """
    num, length, heads, _ = query.shape
    count = -(-length // chunk)
    missing = count * chunk - length

    def chunks(rows: Tensor) -> Tensor:
        rows = (
            functional.pad(rows, (0, 0) * (rows.dim() - 2) + (0, missing))
            if missing
            else rows
        )
        return (
            rows.unflatten(1, (count, chunk)).movedim(3, 1).flatten(0, 1)
        )  # [S * H, N, C, ...]

    q, k, v = (
        chunks(_unit(query) * query.shape[-1] ** -0.5),
        chunks(_unit(key)),
        chunks(value),
    )
    cumulative = chunks(decay).cumsum(-1)
    strength = chunks(beta)[..., None]
    future = torch.ones(chunk, chunk, dtype=torch.bool).triu_(1)
    pairwise = (
        (cumulative[..., :, None] - cumulative[..., None, :])
        .masked_fill(future, -math.inf)
        .exp()
    )
    attention = pairwise * (q @ k.mT)
    system = (pairwise * (k @ k.mT) * strength).tril(-1) + torch.eye(chunk)
    inverse = _UnitLowerInverse.apply(system) * strength.mT
    growth = cumulative.exp()[..., None]
    last = cumulative[..., -1:, None]
    u = inverse @ v
    w = inverse @ (k * growth)
    readers = q * growth
    writers = (k * (last - cumulative[..., None]).exp()).mT
    carried = last.exp()
    memory = state.flatten(0, 1)
    outputs = []
    for index in range(count):
        new = u[:, index] - w[:, index] @ memory
        outputs.append(
            torch.baddbmm(readers[:, index] @ memory, attention[:, index], new)
        )
        memory = torch.baddbmm(memory * carried[:, index], writers[:, index], new)
    output = torch.stack(outputs, 1).view(num, heads, count * chunk, -1)[:, :, :length]
    return output.transpose(1, 2), memory.view_as(state)


def _unit(rows: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + 1e-6)

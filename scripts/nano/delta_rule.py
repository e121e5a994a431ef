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
        identity = torch.eye(matrices.shape[-1], device=matrices.device)
        inverse = torch.linalg.solve_triangular(
            matrices,
            identity.expand_as(matrices),
            upper=False,
            unitriangular=True,
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
    q, k, v, decays, strengths = (
        _chunks(rows, count, chunk)
        for rows in (
            _unit(query) * query.shape[-1] ** -0.5,
            _unit(key),
            value,
            decay,
            beta,
        )
    )
    cumulative = decays.cumsum(-1)
    attention, inverse = _within(q, k, cumulative, strengths)
    growth = cumulative.exp()[..., None]
    last = cumulative[..., -1:, None]
    u = inverse @ v
    readers = torch.cat((inverse @ (k * growth), q * growth), 2)
    writers = (k * (last - cumulative[..., None]).exp()).mT
    carried = last.exp()
    memory = state.flatten(0, 1)
    outputs = []
    for index in range(count):
        read, past = (readers[:, index] @ memory).split(chunk, 1)
        new = u[:, index] - read
        outputs.append(torch.baddbmm(past, attention[:, index], new))
        memory = torch.baddbmm(memory * carried[:, index], writers[:, index], new)
    output = torch.stack(outputs, 1).view(num, heads, count * chunk, -1)
    return output[:, :, :length].transpose(1, 2), memory.view_as(state)


def _chunks(rows: Tensor, count: int, chunk: int) -> Tensor:
    """Lay [S, T, H, ...] out as [S * H, N, C, ...]; rows past T are zero."""
    missing = count * chunk - rows.shape[1]
    if missing:
        rows = functional.pad(rows, (0, 0) * (rows.dim() - 2) + (0, missing))
    return rows.unflatten(1, (count, chunk)).movedim(3, 1).flatten(0, 1)


def _within(
    q: Tensor, k: Tensor, cumulative: Tensor, strength: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what rows of one chunk read of each other, and A^-1 with beta folded in; both [S * H, N, C, C]."""
    chunk = q.shape[2]
    future = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).triu_(1)
    # Masked before exp: a future decay would be positive and could overflow.
    pairwise = (cumulative[..., :, None] - cumulative[..., None, :]).masked_fill(
        future, -math.inf
    )
    pairwise = pairwise.exp()
    alike = pairwise * (k @ k.mT) * strength[..., None]
    identity = torch.eye(chunk, device=q.device)
    inverse = _UnitLowerInverse.apply(alike.tril(-1) + identity)
    return pairwise * (q @ k.mT), inverse * strength[..., None, :]


def _unit(rows: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + 1e-6)

"""The gated delta rule for many tokens at once: the form of prefill.

Within a chunk the updates of C tokens become matrix products (the WY form of arXiv:2412.06464, section
3.3). With G = exp(cumulative decay), D[i, j] = G[i] / G[j] for j <= i, and A = I + tril(beta k k^T D, -1):
u = A^-1 (beta v) is what the chunk would write onto an empty memory, and w = A^-1 (beta G k) is how it
reads the memory S that it meets; then

    n = u - w S;    o = (G q) S + (q k^T D) n;    S' = G[last] S + (k G[last] / G)^T n

Phase 1 computes for all chunks at once what does not depend on S; phase 2 carries S from chunk to chunk
with three batched products each.
"""

from functools import partial
import math

import torch
from torch import Tensor
from torch.nn import functional

from ..norms import l2_norm

CHUNK_TOKENS = 64


def gated_delta_rule_chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    """Read T >= 1 tokens in equal chunks of at most 64.

    Shapes and value spaces as in the package's docstring. The length of the chunks follows from T alone
    and wastes less than one token a chunk, so a short stretch costs little.
    """
    num_tokens = value.shape[0]
    num_chunks = -(-num_tokens // CHUNK_TOKENS)
    length = -(-num_tokens // num_chunks)
    chunks = partial(_chunks, num_chunks=num_chunks, length=length)
    q = l2_norm(chunks(query)).mul_(query.shape[-1] ** -0.5)  # [HK, N, C, K]
    k = l2_norm(chunks(key))
    cumulative = chunks(decay).cumsum(-1)  # [HV, N, C]
    inverse, attention = _within_chunks(q, k, cumulative, chunks(beta))

    growth = cumulative.exp()
    last = cumulative[..., -1:]
    u = inverse @ chunks(value)  # [HV, N, C, V]
    w = _per_value_head(inverse.mul_(growth[..., None, :]), k)  # [HV, N, C, K]
    readers = torch.cat((w, _scale_rows(q, growth)), dim=2)  # [HV, N, 2C, K]
    writers = _scale_rows(k, (last - cumulative).exp()).mT  # [HV, N, K, C]
    carried = last.exp()[..., None]  # [HV, N, 1, 1]

    outputs = torch.empty_like(u)
    for chunk in range(num_chunks):
        read = torch.bmm(readers[:, chunk], state)
        new_values = u[:, chunk] - read[:, :length]
        past = read[:, length:]
        outputs[:, chunk] = torch.baddbmm(past, attention[:, chunk], new_values)
        state = torch.baddbmm(state * carried[:, chunk], writers[:, chunk], new_values)
    return outputs.flatten(1, 2)[:, :num_tokens].transpose(0, 1).to(value.dtype), state


def _chunks(rows: Tensor, num_chunks: int, length: int) -> Tensor:
    """Lay [T, H, ...] out as float32 [H, N, C, ...]; rows past T are zero and change no memory."""
    heads_first = rows.float().transpose(0, 1)
    missing = num_chunks * length - rows.shape[0]
    if missing:
        heads_first = functional.pad(
            heads_first, (0, 0) * (rows.dim() - 2) + (0, missing)
        )
    return heads_first.reshape(rows.shape[1], num_chunks, length, *rows.shape[2:])


def _within_chunks(
    q: Tensor, k: Tensor, cumulative: Tensor, strength: Tensor
) -> tuple[Tensor, Tensor]:
    """Return A^-1 with beta folded into its columns, and q k^T D; both [HV, N, C, C], lower triangular."""
    num_key_heads, num_chunks, length, _ = k.shape
    grouped = (num_key_heads, -1, num_chunks, length, length)
    shape = (-1, num_chunks, length, length)
    future = torch.ones(length, length, dtype=torch.bool, device=k.device).triu_(1)
    # Masked before exp: a future decay would be positive and could overflow.
    pairwise = (
        (cumulative[..., :, None] - cumulative[..., None, :])
        .masked_fill_(future, -math.inf)
        .exp_()
        .view(grouped)
    )
    transposed = k.mT
    attention = (pairwise * (q @ transposed)[:, None]).view(shape)
    system = (pairwise * (k @ transposed)[:, None]).view(shape) * strength[..., None]
    identity = torch.eye(length, device=k.device).expand_as(system)
    inverse = torch.linalg.solve_triangular(
        system, identity, upper=False, unitriangular=True
    )
    return inverse * strength[..., None, :], attention


def _per_value_head(matrices: Tensor, k: Tensor) -> Tensor:
    """Multiply [HV, N, C, C] with [HK, N, C, K], each value head with its key head's rows."""
    num_key_heads, num_chunks, length, key_dim = k.shape
    if matrices.shape[0] == num_key_heads:
        return matrices @ k
    # One product a key head: the matrices of its group stand one below the other.
    stacked = matrices.view(num_key_heads, -1, num_chunks, length, length).transpose(
        1, 2
    )
    product = stacked.reshape(num_key_heads, num_chunks, -1, length) @ k
    grouped = product.view(num_key_heads, num_chunks, -1, length, key_dim).transpose(
        1, 2
    )
    return grouped.reshape(-1, num_chunks, length, key_dim)


def _scale_rows(rows: Tensor, factors: Tensor) -> Tensor:
    """Multiply rows [HK, N, C, K] with factors [HV, N, C] of their value heads, to [HV, N, C, K]."""
    num_key_heads, num_chunks, length, key_dim = rows.shape
    grouped = factors.view(num_key_heads, -1, num_chunks, length, 1)
    return (rows[:, None] * grouped).view(-1, num_chunks, length, key_dim)

"""The gated delta rule for many tokens at once: the form of prefill.

Within a chunk the updates of C tokens become matrix products (the WY form of arXiv:2412.06464, section
3.3). With G = exp(cumulative decay), D[i, j] = G[i] / G[j] for j <= i, and A = I + tril(beta k k^T D, -1),
what the chunk writes onto the memory S that it meets is n, and

    n = A^-1 beta (v - G k S);    o = G q S + (q k^T D) n;    S' = G[last] S + k^T (n G[last] / G)

Phase 1 computes for all chunks at once what does not depend on S; phase 2 carries S from chunk to chunk with
four batched products each. Decays only ever scale rows: keys and queries go into the products as they are.
"""

from functools import partial

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
) -> Tensor:
    """Read T >= 1 tokens in equal chunks of at most 64.

    Shapes and value spaces as in the package's docstring. The length of the chunks follows from T alone
    and wastes less than one token a chunk, so a short stretch costs little.
    """
    num_tokens, num_heads, _ = value.shape
    num_chunks = -(-num_tokens // CHUNK_TOKENS)
    length = -(-num_tokens // num_chunks)
    chunks = partial(_chunks, num_chunks=num_chunks, length=length)
    # Keys above queries, [N, HK, 2C, K]: whatever meets the one meets the other.
    kq = l2_norm(torch.cat((chunks(key), chunks(query)), dim=2))
    v = chunks(value)  # [N, HV, C, V]
    cumulative = chunks(decay).cumsum(-1)  # [N, HV, C]
    scale = query.shape[-1] ** -0.5
    inverse, attention = _within_chunks(kq, cumulative, chunks(beta), scale)

    growth = cumulative.exp()[..., None]
    readers = torch.cat((growth, growth * scale), dim=2)  # [N, HV, 2C, 1]
    last = cumulative[..., -1:]
    writers = (last - cumulative).exp()[..., None]  # [N, HV, C, 1]
    carried = last.exp()[..., None]  # [N, HV, 1, 1]
    # A view where every value head has a key head of its own.
    group = num_heads // kq.shape[1]
    kq = kq[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)

    outputs = torch.empty_like(v, memory_format=torch.contiguous_format)
    for chunk in range(num_chunks):
        read = torch.bmm(kq[chunk], state).mul_(readers[chunk])
        new_values = torch.bmm(inverse[chunk], v[chunk] - read[:, :length])
        torch.baddbmm(
            read[:, length:], attention[chunk], new_values, out=outputs[chunk]
        )
        new_values.mul_(writers[chunk])
        keys = kq[chunk, :, :length].mT
        state.mul_(carried[chunk]).baddbmm_(keys, new_values)
    output = outputs.transpose(1, 2).flatten(0, 1)[:num_tokens]
    return output.to(value.dtype)


def _chunks(rows: Tensor, num_chunks: int, length: int) -> Tensor:
    """Show [T, H, ...] as float32 [N, H, C, ...]; rows past T are zero and change no memory."""
    rows = rows.float()
    missing = num_chunks * length - rows.shape[0]
    if missing:
        rows = functional.pad(rows, (0, 0) * (rows.dim() - 1) + (0, missing))
    return rows.view(num_chunks, length, *rows.shape[1:]).transpose(1, 2)


def _within_chunks(
    kq: Tensor, cumulative: Tensor, strength: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Return A^-1 with beta folded into its columns, and scale q k^T D; both [N, HV, C, C], lower triangular."""
    num_chunks, num_key_heads, _, _ = kq.shape
    length = cumulative.shape[-1]
    # The future's are positive before exp, and may be infinite after it; tril_ puts zeros there whatever they are. That
    # is twice as quick as to mask them first, for exp is slow where it underflows.
    pairwise = (
        (cumulative[..., :, None] - cumulative[..., None, :])
        .exp_()
        .tril_()
        .view(num_chunks, num_key_heads, -1, length, length)
    )
    products = (kq @ kq[:, :, :length].mT)[:, :, None]  # [N, HK, 1, 2C, C]
    attention = (pairwise * products[..., length:, :]).flatten(1, 2).mul_(scale)
    system = pairwise.mul_(products[..., :length, :]).flatten(1, 2)
    system.mul_(strength[..., None])
    identity = torch.eye(length, device=kq.device).expand_as(system)
    inverse = torch.linalg.solve_triangular(
        system, identity, upper=False, unitriangular=True
    )
    return inverse * strength[..., None, :], attention

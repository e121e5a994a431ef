"""The gated delta rule token by token, as the paper writes it; the measure of the fast forms, too slow to run."""

import torch
from torch import Tensor

from ..norms import l2_norm


def gated_delta_rule_reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
) -> Tensor:
    """Apply S = exp(g) S; S = S + k (beta (v - S^T k))^T; o = S^T q to one token after another.

    Arithmetic of arXiv:2412.06464, equation 10, with the memory transposed to [K, V]. Shapes and
    value spaces as in the package's docstring.
    """
    group = value.shape[1] // key.shape[1]
    query = (l2_norm(query.float()) * query.shape[-1] ** -0.5).repeat_interleave(
        group, dim=1
    )
    key = l2_norm(key.float()).repeat_interleave(group, dim=1)
    outputs = []
    for q, k, v, g, b in zip(query, key, value.float(), decay, beta, strict=True):
        state.mul_(g.exp()[:, None, None])
        remembered = torch.einsum("hkv,hk->hv", state, k)
        state.add_(torch.einsum("hk,hv->hkv", k, b[:, None] * (v - remembered)))
        outputs.append(torch.einsum("hkv,hk->hv", state, q))
    return torch.stack(outputs).to(value.dtype)

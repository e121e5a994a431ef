"""The gated delta rule for one token: the form of decode."""

import torch
from torch import Tensor

from ..norms import l2_norm


def gated_delta_rule_recurrent(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
) -> Tensor:
    """Advance the memory by exactly one token (T = 1).

    Shapes and value spaces as in the package's docstring. With S the memory before and w what is written onto
    g S, the output is S'^T q = g S^T q + (k . q) w: so S is passed over three times, read with key and query
    at once, decayed, and written.
    """
    num_key_heads, key_dim = key.shape[1:]
    num_value_heads, value_dim = value.shape[1:]
    group = num_value_heads // num_key_heads
    rows = l2_norm(torch.stack((key[0], query[0]), dim=1).float())  # [HK, 2, K]
    if group > 1:
        rows = rows.repeat_interleave(group, dim=0)
    kept = decay.exp().view(num_value_heads, 1, 1)
    read = torch.bmm(rows, state).mul_(kept)  # [HV, 2, V]
    by_key, by_query = read[:, :1], read[:, 1:]
    written = (value.float().view(num_value_heads, 1, value_dim) - by_key).mul_(
        beta.view(num_value_heads, 1, 1)
    )
    k, q = rows[:, 0], rows[:, 1]
    alike = (k * q).sum(-1)[:, None, None]
    output = torch.addcmul(by_query, alike, written).mul_(key_dim**-0.5)
    state.mul_(kept).addcmul_(k[:, :, None], written)
    return output.view(1, num_value_heads, value_dim).to(value.dtype)

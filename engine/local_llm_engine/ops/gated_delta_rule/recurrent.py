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
) -> tuple[Tensor, Tensor]:
    """Advance the memory by exactly one token (T = 1).

    Shapes and value spaces as in the package's docstring. The memory is passed over four times:
    decayed into a new tensor, read with the key, written, read with the query.
    """
    num_key_heads, key_dim = key.shape[1:]
    num_value_heads, value_dim = value.shape[1:]
    group = num_value_heads // num_key_heads
    rows = l2_norm(torch.cat((key, query)).float())  # [2, HK, K]
    if group > 1:
        rows = (
            rows[:, :, None]
            .expand(2, num_key_heads, group, key_dim)
            .reshape(2, num_value_heads, key_dim)
        )
    k, q = rows[0], rows[1]
    state = state * decay.exp().view(num_value_heads, 1, 1)
    remembered = torch.bmm(k[:, None], state)  # [HV, 1, V]
    written = (
        value.float().view(num_value_heads, 1, value_dim) - remembered
    ) * beta.view(num_value_heads, 1, 1)
    state.addcmul_(k[:, :, None], written)
    output = torch.bmm(q[:, None], state) * key_dim**-0.5  # [HV, 1, V]
    return output.view(1, num_value_heads, value_dim).to(value.dtype), state

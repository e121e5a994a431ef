"""The short causal convolution before the delta rule: depthwise, no bias, followed by SiLU.

    output = form(rows, weight, state)

- `rows`: [T, C], the inputs of T tokens.
- `weight`: [kernel, C]; the last row meets the token itself. Products are summed in its dtype.
- `state`: [kernel - 1, C], the inputs of the tokens before, oldest first, in their dtype; it becomes, bit for bit,
  that of the tokens after.
- `output`: [T, C] in `weight`'s dtype.
"""

import torch
from torch import Tensor
from torch.nn import functional


def causal_conv_reference(rows: Tensor, weight: Tensor, state: Tensor) -> Tensor:
    """Compute each output from the kernel's window over the inputs so far; plain and slow."""
    kernel = weight.shape[0]
    window = torch.cat((state, rows))
    outputs = [
        (window[token : token + kernel].to(weight.dtype) * weight).sum(0)
        for token in range(rows.shape[0])
    ]
    state.copy_(window[-(kernel - 1) :])
    return functional.silu(torch.stack(outputs))


def causal_conv(rows: Tensor, weight: Tensor, state: Tensor) -> Tensor:
    """Compute all tokens at once as a sum of shifted products."""
    num_tokens = rows.shape[0]
    kernel = weight.shape[0]
    window = torch.cat((state, rows))
    inputs = window.to(weight.dtype)
    output = inputs[:num_tokens] * weight[0]
    for tap in range(1, kernel):
        output.addcmul_(inputs[tap : tap + num_tokens], weight[tap])
    state.copy_(window[num_tokens:])
    return functional.silu(output, inplace=True)


def causal_conv_one_row(rows: Tensor, weight: Tensor, state: Tensor) -> Tensor:
    """Compute exactly one token (T = 1)."""
    window = torch.cat((state, rows))
    output = (window.to(weight.dtype) * weight).sum(0, keepdim=True)
    state.copy_(window[1:])
    return functional.silu(output, inplace=True)

"""Rows of keys or values in 8 bits, one scale for each token and head; and attention of one row over them.

    row = codes * scale

In trained models some channels of keys are ten times as large as others. One scale for all of them would leave little
of the small ones, so keys are turned by a Hadamard matrix H before: that spreads each channel over all, and queries
turned by the inverse of H have the same products with them. Values have no such channels.

Knows nothing of where rows are kept.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

# The largest code but for the half that the rounding of its scale may add.
_LARGEST = 126.5
# Tokens whose codes become numbers at once for one row: few enough for these to stay in a CPU's cache.
_BLOCK_TOKENS = 2_048


class QuantizedRows(NamedTuple):
    """Rows [HKV, P, D]: `codes`, int8, times `scales`, bfloat16 [HKV, P].

    `turn` [D, D] is what a query's rows must be multiplied with before they meet these; None: nothing.
    """

    codes: Tensor
    scales: Tensor
    turn: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """HKV, P and D."""
        return self.codes.shape

    def dequantize(self, head: int | slice, dtype: torch.dtype) -> Tensor:
        """Compute the rows [P, D] of one head, or [..., P, D] of several."""
        return self.codes[head].to(dtype).mul_(self.scales[head, ..., None])

    def turned(self, query: Tensor) -> Tensor:
        """Make query rows [..., D] ready to meet these."""
        return query if self.turn is None else query @ self.turn


def quantize_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return codes, whole numbers of -127 to 127 in float32 [..., D], and scales, bfloat16 [...], of rows [..., D]."""
    largest = torch.linalg.vector_norm(rows, math.inf, dim=-1, dtype=torch.float32)
    scales = largest.div_(_LARGEST).bfloat16()
    # A row of zeros has a scale of zero.
    divisor = scales.float().clamp_min_(torch.finfo(torch.float32).tiny)
    return (rows / divisor[..., None]).round_(), scales


def hadamard(
    size: int, *, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Make a symmetric matrix [size, size] of ones, with a sign, and its inverse; both are exact in any dtype.

    It is Sylvester's, or, where `size` is no power of two, as many of the largest that divides it as fit, one after the
    other on the diagonal.
    """
    matrix = torch.ones(1, 1)
    while size % (2 * len(matrix)) == 0:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    block = len(matrix)
    matrix = torch.kron(torch.eye(size // block), matrix)
    return matrix.to(device, dtype), (matrix / block).to(device, dtype)


def quantized_attention_one_row(
    query: Tensor, keys: QuantizedRows, values: QuantizedRows, prefix: int
) -> Tensor:
    """Compute what `attention_one_row` does: exactly one row (T = 1), which sees the first `prefix` keys.

    Products are of codes, which are exact in any dtype; scales come to the scores and to the weights, in float32.
    Whatever follows in `keys` and `values` counts for nothing.
    """
    _, num_heads, head_dim = query.shape
    num_key_heads, num_tokens, _ = keys.codes.shape
    grouped = query.view(num_key_heads, -1, head_dim).mul(head_dim**-0.5)
    turned = keys.turned(grouped).mT  # [HKV, D, G]
    blocks = [
        slice(start, min(start + _BLOCK_TOKENS, num_tokens))
        for start in range(0, num_tokens, _BLOCK_TOKENS)
    ]
    scores = torch.cat(
        [keys.codes[:, block].to(query.dtype) @ turned for block in blocks], dim=1
    )
    weights = scores.mT.contiguous().float()  # [HKV, G, P]
    weights.mul_(keys.scales[:, None])
    weights[..., prefix:] = -math.inf
    weights = weights.softmax(-1).mul_(values.scales[:, None])
    # Scales that nobody wrote may be no numbers.
    weights[..., prefix:] = 0
    weights = weights.to(query.dtype)
    output = torch.zeros_like(grouped, dtype=torch.float32)
    for block in blocks:
        output += weights[..., block] @ values.codes[:, block].to(query.dtype)
    return output.to(query.dtype).view(1, num_heads, head_dim)

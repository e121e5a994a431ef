"""Causal attention over a growing prefix of keys and values, and the rotary embedding of positions.

    output = form(query, keys, values)

- `query`: [T, HQ, D], the last T of P tokens: row t sees keys 0 .. P - T + t.
- `keys`, `values`: [HKV, P, D], all rows so far, possibly views of a longer buffer, or all of them in 8 bits.
  HQ is a multiple of HKV; query heads h * HQ / HKV and following read key head h.
- `output`: [T, HQ, D] in `query`'s dtype, which is `values`', too. Scores are scaled by D ** -0.5.

Knows nothing of projections, gates or where the prefix is kept.
"""

import math

import torch
from torch import Tensor

from .quantized_rows import QuantizedRows, quantized_attention_one_row

type Rows = Tensor | QuantizedRows

# Rows of one product on a CPU, all query heads of a key head counted. Measured at 5,000 tokens on two cores with
# AVX-512: with fewer, products do not reach the processor's speed; with more, the scores leave its cache.
_CPU_ROWS = 512
# Up to so many scores of a key head, calling a product costs a CPU more than the product.
_FEW_SCORES = 65_536


def attention_reference(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute softmax(q k^T / sqrt(D) + mask) v head by head, in float32 (arXiv:1706.03762, section 3.2.1)."""
    num_tokens, num_heads, head_dim = query.shape
    group = num_heads // keys.shape[0]
    prefix = keys.shape[1]
    visible = torch.ones(
        num_tokens, prefix, dtype=torch.bool, device=query.device
    ).tril(prefix - num_tokens)
    outputs = []
    for head in range(num_heads):
        scores = (
            query[:, head].float() @ keys[head // group].float().t() * head_dim**-0.5
        )
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
        outputs.append(weights @ values[head // group].float())
    return torch.stack(outputs, dim=1).to(values.dtype)


def attention(query: Tensor, keys: Rows, values: Rows) -> Tensor:
    """Compute all rows in blocks; a block's query heads of one key head share one product, so nothing is expanded."""
    num_tokens, num_heads, head_dim = query.shape
    num_key_heads, prefix, _ = keys.shape
    group = num_heads // num_key_heads
    grouped = query.view(num_tokens, num_key_heads, group, head_dim)
    grouped = grouped.mul(head_dim**-0.5).permute(1, 2, 0, 3)  # [HKV, G, T, D]
    if isinstance(keys, QuantizedRows):
        grouped = keys.turned(grouped)
    output = torch.empty_like(query)
    grouped_output = output.view(num_tokens, num_key_heads, group, head_dim)
    on_cpu = query.device.type == "cpu"
    block = max(1, _CPU_ROWS // group) if on_cpu else num_tokens
    # On a CPU one key head after the other where there is much to do: a product of two matrices is faster
    # there than a batch of them, and its scores stay in the cache.
    one_by_one = on_cpu and group * num_tokens * prefix > _FEW_SCORES
    for head in range(num_key_heads) if one_by_one else (slice(None),):
        head_keys = _of_head(keys, head, query.dtype)
        head_values = _of_head(values, head, query.dtype)
        for start in range(0, num_tokens, block):
            end = min(start + block, num_tokens)
            seen = prefix - num_tokens + end
            rows = _attend(
                grouped[head, ..., start:end, :],
                head_keys[..., :seen, :],
                head_values[..., :seen, :],
            )
            grouped_output[start:end, head] = rows.movedim(-2, 0)
    return output


def attention_one_row(query: Tensor, keys: Rows, values: Rows, prefix: int) -> Tensor:
    """Compute exactly one row (T = 1), which sees the first `prefix` keys: two batched products and a softmax.

    Whatever follows in `keys` and `values` counts for nothing, but there must be finite numbers.
    """
    if isinstance(keys, QuantizedRows) or isinstance(values, QuantizedRows):
        assert isinstance(keys, QuantizedRows)
        assert isinstance(values, QuantizedRows)
        return quantized_attention_one_row(query, keys, values, prefix)
    _, num_heads, head_dim = query.shape
    grouped = query.view(keys.shape[0], -1, head_dim).mul(head_dim**-0.5)  # [HKV, G, D]
    scores = _scores(grouped, keys)
    scores[..., prefix:] = -math.inf
    return torch.bmm(scores.softmax(-1), values).view(1, num_heads, head_dim)


def _of_head(rows: Rows, head: int | slice, dtype: torch.dtype) -> Tensor:
    """Take the rows of a head, or of all of them; from 8 bits a copy that lasts no longer than the head's turn."""
    if isinstance(rows, QuantizedRows):
        return rows.dequantize(head, dtype)
    return rows[head]


def _attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend from the last rows [..., G, B, D], scaled, of prefixes [..., P, D]; returns [..., G, B, D]."""
    num_rows, prefix = query.shape[-2], keys.shape[-2]
    scores = _scores(query.flatten(-3, -2), keys)
    by_row = scores.view(*query.shape[:-1], prefix)
    future = torch.ones(
        num_rows, num_rows, dtype=torch.bool, device=query.device
    ).triu_(1)
    by_row[..., prefix - num_rows :].masked_fill_(future, -math.inf)
    # In float32 within, whatever the dtype.
    return (scores.softmax(-1) @ values).view(query.shape)


def _scores(rows: Tensor, keys: Tensor) -> Tensor:
    """Multiply rows [..., R, D] with keys [..., P, D]; returns [..., R, P], contiguous."""
    if rows.dim() == 2:
        return rows @ keys.mT
    # In a batch, keys first: this order is the one that is fast in float32 and in bfloat16.
    return (keys @ rows.mT).mT.contiguous()


def rotary_angles(
    start: int, num_tokens: int, frequencies: Tensor
) -> tuple[Tensor, Tensor]:
    """Return cosine and sine [T, 1, R / 2], float32, of positions start .. start + T - 1.

    `frequencies`: [R / 2], float32, radians a position. Text takes the same position on all three axes
    of an interleaved multimodal embedding, which is then the plain one.
    """
    positions = torch.arange(
        start, start + num_tokens, dtype=torch.float32, device=frequencies.device
    )
    angles = (positions[:, None] * frequencies)[:, None]
    return angles.cos(), angles.sin()


def rotate(rows: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the first R of D values of rows [T, H, D] by their position's angle (arXiv:2104.09864).

    Pairs are value i and value i + R / 2; the values past R stay as they are.
    """
    half = cosine.shape[-1]
    first, second, rest = torch.split(
        rows, [half, half, rows.shape[-1] - 2 * half], dim=-1
    )
    turned_first = torch.addcmul(first * cosine, second, sine, value=-1)
    turned_second = torch.addcmul(second * cosine, first, sine)
    return torch.cat((turned_first, turned_second, rest), dim=-1)

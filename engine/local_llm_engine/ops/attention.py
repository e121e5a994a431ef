"""Causal attention over a growing prefix of keys and values, and the rotary embedding of positions.

    output = form(query, keys, values)

- `query`: [T, HQ, D], the last T of P tokens: row t sees keys 0 .. P - T + t.
- `keys`, `values`: [HKV, P, D], all rows so far, possibly views of a longer buffer. HQ is a multiple of
  HKV; query heads h * HQ / HKV and following read key head h.
- `output`: [T, HQ, D] in `values`' dtype. Scores are scaled by D ** -0.5.

Knows nothing of projections, gates or where the prefix is kept.
"""

import math

import torch
from torch import Tensor

# Query rows that one product handles on a CPU: their scores stay in the cache at any depth of interest.
_CPU_ROWS = 64


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


def attention(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute all rows in blocks; a block's query heads of one key head share one product, so nothing is expanded."""
    num_tokens, num_heads, _ = query.shape
    group = num_heads // keys.shape[0]
    block = max(1, _CPU_ROWS // group) if query.device.type == "cpu" else num_tokens
    past = keys.shape[1] - num_tokens
    output = torch.empty_like(query, dtype=values.dtype)
    for start in range(0, num_tokens, block):
        end = min(start + block, num_tokens)
        rows = _attend(query[start:end], keys[:, : past + end], values[:, : past + end])
        output[start:end] = rows
    return output


def attention_one_row(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute exactly one row (T = 1), which sees everything: two batched products and a softmax."""
    _, num_heads, head_dim = query.shape
    grouped = query.view(keys.shape[0], -1, head_dim).mul(head_dim**-0.5)  # [HKV, G, D]
    # Keys first: this order of the product is the one that is fast in float32 and in bfloat16.
    scores = torch.bmm(keys, grouped.transpose(1, 2)).transpose(1, 2)  # [HKV, G, P]
    weights = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
    return torch.bmm(weights, values).view(1, num_heads, head_dim)


def _attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend from the last rows [B, HQ, D] of a prefix."""
    num_rows, num_heads, head_dim = query.shape
    num_key_heads, prefix, _ = keys.shape
    group = num_heads // num_key_heads
    grouped = query.view(num_rows, num_key_heads, group, head_dim).permute(1, 2, 0, 3)
    grouped = grouped.reshape(num_key_heads, group * num_rows, head_dim).mul(
        head_dim**-0.5
    )
    scores = torch.bmm(keys, grouped.transpose(1, 2)).transpose(1, 2)  # [HKV, G * B, P]
    recent = scores.view(num_key_heads, group, num_rows, prefix)[
        ..., prefix - num_rows :
    ]
    future = torch.ones(
        num_rows, num_rows, dtype=torch.bool, device=query.device
    ).triu_(1)
    recent.masked_fill_(future, -math.inf)
    weights = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
    output = torch.bmm(weights, values).view(num_key_heads, group, num_rows, head_dim)
    return output.permute(2, 0, 1, 3).reshape(num_rows, num_heads, head_dim)


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

"""The parts that nano's layers are made of, for training: Gated DeltaNet, gated attention and the feed-forward network.

Rows are flat; only what needs sequences lays them out. Tensors bear the names of Hugging Face's layout.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .batches import MARGIN, Batch, Group
from .config import NanoConfig
from .delta_rule import gated_delta_rule

_LONGEST_CHUNK = 64


class _Spread(torch.autograd.Function):
    """Put flat rows [N, C] at their places among rows [S * L, C]; the others are zero."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, total: int) -> Tensor:
        ctx.save_for_backward(places)
        return rows.new_zeros(total, rows.shape[1]).index_copy_(0, places, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradients[0].index_select(0, places), None, None


class _Collect(torch.autograd.Function):
    """Take the rows [N, C] at these places from [S * L, C], each once."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.total = rows.shape[0]
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        gradient = gradients[0]
        return gradient.new_zeros(ctx.total, gradient.shape[1]).index_copy_(
            0, places, gradient
        ), None


class _Convolution(torch.autograd.Function):
    """Convolve rows [N, C] with [C, 4], both float32; the first row of the result is that of row 3.

    Written out, for autograd would fill a tensor of zeros for each tap.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        taps = weight.mT.contiguous()
        length = rows.shape[0] - MARGIN
        total = rows[:length] * taps[0]
        for tap in range(1, MARGIN + 1):
            total.addcmul_(rows[tap : tap + length], taps[tap])
        ctx.save_for_backward(rows, taps)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rows, taps = ctx.saved_tensors
        gradient = gradients[0]
        length = len(gradient)
        of_rows = torch.zeros_like(rows)
        of_taps = []
        for tap in range(MARGIN + 1):
            of_rows[tap : tap + length].addcmul_(gradient, taps[tap])
            of_taps.append((gradient * rows[tap : tap + length]).sum(0))
        return of_rows, torch.stack(of_taps, 1)


def spread(rows: Tensor, group: Group) -> Tensor:
    """Lay flat rows [N, C] of a group out as padded sequences [S, L, C]."""
    return _Spread.apply(rows, group.places, group.num * group.length).view(
        group.num, group.length, -1
    )


def collect(sequences: Tensor, group: Group) -> Tensor:
    """Take the flat rows [N, C] of a group back out of padded sequences [S, L, ...]."""
    return _Collect.apply(sequences.reshape(group.num * group.length, -1), group.places)


class RMSNorm(nn.Module):
    """RMS norm whose weight is the distance of the factors from 1."""

    def __init__(self, size: int, epsilon: float) -> None:
        """Begin with factors of 1."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.epsilon = epsilon

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows [N, H]."""
        return functional.rms_norm(
            rows, (rows.shape[-1],), self.weight + 1.0, self.epsilon
        )


class DeltaNet(nn.Module):
    """One Gated DeltaNet layer."""

    def __init__(self, config: NanoConfig) -> None:
        """Make the layer's tensors."""
        super().__init__()
        self.config = config
        heads, width = config.delta_heads, config.delta_heads * config.value_dim
        self.in_proj_qkv = nn.Linear(
            config.hidden_size, config.num_channels, bias=False
        )
        self.in_proj_z = nn.Linear(config.hidden_size, width, bias=False)
        self.in_proj_b = nn.Linear(config.hidden_size, heads, bias=False)
        self.in_proj_a = nn.Linear(config.hidden_size, heads, bias=False)
        self.conv1d = nn.Conv1d(
            config.num_channels,
            config.num_channels,
            config.kernel,
            groups=config.num_channels,
            bias=False,
        )
        self.A_log = nn.Parameter(torch.empty(heads))
        self.dt_bias = nn.Parameter(torch.empty(heads))
        self.norm = nn.Module()
        self.norm.weight = nn.Parameter(torch.ones(config.value_dim))
        self.out_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(
        self, rows: Tensor, batch: Batch, _rotation: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Map rows [N, H] of a batch."""
        config = self.config
        mixed, gate = self.in_proj_qkv(rows), self.in_proj_z(rows)
        beta = self.in_proj_b(rows).float().sigmoid()
        decay = -self.A_log.exp() * functional.softplus(
            self.in_proj_a(rows).float() + self.dt_bias
        )
        gates = torch.cat((decay, beta), -1)
        none = mixed.new_zeros(1, mixed.shape[1])
        rows_with_margins = torch.cat((none, mixed)).index_select(0, batch.sources)
        total = _Convolution.apply(rows_with_margins.float(), self.conv1d.weight[:, 0])
        active = _Collect.apply(functional.silu(total).to(mixed.dtype), batch.convolved)
        empty = gates.new_zeros(
            batch.prompts.num, config.delta_heads, config.key_dim, config.value_dim
        )
        parts = zip(batch.split(active), batch.split(gates), strict=True)
        first, states = self._mix(*next(parts), batch.prompts, empty)
        outputs = [first]
        for group, part in zip(batch.branches, parts, strict=True):
            assert group.owners is not None
            before = states.index_select(0, group.owners)
            outputs.append(self._mix(*part, group, before)[0])
        output = torch.cat(outputs).view(len(rows), -1, config.value_dim)
        return self.out_proj(gated_norm(output, gate, self.norm.weight, config.epsilon))

    def _mix(
        self, active: Tensor, gates: Tensor, group: Group, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Apply the rule to a group's flat rows; returns flat rows [N, H * V] and the states after them."""
        config = self.config
        keys, values = (
            config.delta_heads * config.key_dim,
            config.delta_heads * config.value_dim,
        )
        rows = spread(active, group)
        query, key, value = (
            part.unflatten(-1, (config.delta_heads, -1))
            for part in rows.split((keys, keys, values), -1)
        )
        decay, beta = spread(gates, group).chunk(2, -1)
        with torch.autocast(rows.device.type, enabled=False):
            output, state = gated_delta_rule(
                query.float(),
                key.float(),
                value.float(),
                decay,
                beta,
                state,
                _chunk_for(group.length),
            )
        return collect(output, group), state


def gated_norm(heads: Tensor, gate: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Normalize each head [N, H, V] and multiply with silu of its gate [N, H * V]."""
    normed = (
        heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + epsilon) * weight
    )
    return (normed.flatten(1) * functional.silu(gate.float())).to(gate.dtype)


def _chunk_for(length: int) -> int:
    """Choose equal chunks of at most 64."""
    count = -(-length // _LONGEST_CHUNK)
    return -(-length // count)


class GatedAttention(nn.Module):
    """One layer of attention with a gate, norms on query and key, and a rotary embedding of a part of each head."""

    def __init__(self, config: NanoConfig) -> None:
        """Make the layer's tensors."""
        super().__init__()
        self.config = config
        width = config.num_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, 2 * width, bias=False)
        self.k_proj = nn.Linear(
            config.hidden_size, config.num_kv_heads * config.head_dim, bias=False
        )
        self.v_proj = nn.Linear(
            config.hidden_size, config.num_kv_heads * config.head_dim, bias=False
        )
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.epsilon)
        self.k_norm = RMSNorm(config.head_dim, config.epsilon)

    def forward(
        self, rows: Tensor, batch: Batch, rotation: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Map rows [N, H] of a batch; `rotation` is cosine and sine of each row's angles."""
        config = self.config
        query, gate = (
            self.q_proj(rows)
            .view(len(rows), config.num_heads, 2 * config.head_dim)
            .chunk(2, -1)
        )
        key = self.k_proj(rows).view(len(rows), config.num_kv_heads, config.head_dim)
        value = self.v_proj(rows)
        query = (
            _rotate(self.q_norm(query.float()), *rotation).to(value.dtype).flatten(1)
        )
        key = _rotate(self.k_norm(key.float()), *rotation).to(value.dtype).flatten(1)
        queries = iter(batch.split(query))
        known = iter(batch.split(torch.cat((key, value), 1)))
        prompt = spread(next(known), batch.prompts)
        outputs = [self._attend(next(queries), prompt, batch.prompts)]
        for group, asked, own in zip(batch.branches, queries, known, strict=True):
            assert group.owners is not None
            before = prompt.index_select(0, group.owners)
            seen = torch.cat((before, spread(own, group)), 1)
            outputs.append(self._attend(asked, seen, group))
        return self.o_proj(torch.cat(outputs) * gate.flatten(1).sigmoid())

    def _attend(self, query: Tensor, known: Tensor, group: Group) -> Tensor:
        """Attend from a group's flat rows to keys and values [S, M, 2 * HKV * D]; returns flat rows [N, H * D]."""
        config = self.config
        grouped = config.num_heads // config.num_kv_heads
        key, value = (
            part.unflatten(-1, (config.num_kv_heads, -1)).transpose(1, 2)
            for part in known.chunk(2, -1)
        )
        q = spread(query, group).unflatten(
            -1, (config.num_kv_heads, grouped, -1)
        )  # [S, L, HKV, G, D]
        q = q.permute(0, 2, 3, 1, 4).flatten(
            2, 3
        )  # the heads of a group one below the other
        mask = group.mask.repeat(1, 1, grouped, 1)
        output = functional.scaled_dot_product_attention(q, key, value, attn_mask=mask)
        output = output.unflatten(2, (grouped, group.length)).permute(0, 3, 1, 2, 4)
        return collect(output, group)


def _rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the first R values of each head [N, H, D]; halves of R are the pairs' two sides."""
    half = cosine.shape[-1]
    first, second, rest = (
        heads[..., :half],
        heads[..., half : 2 * half],
        heads[..., 2 * half :],
    )
    return torch.cat(
        (first * cosine - second * sine, second * cosine + first * sine, rest), -1
    )


class FeedForward(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: NanoConfig) -> None:
        """Make the network's tensors."""
        super().__init__()
        self.gate_proj = nn.Linear(
            config.hidden_size, config.intermediate_size, bias=False
        )
        self.up_proj = nn.Linear(
            config.hidden_size, config.intermediate_size, bias=False
        )
        self.down_proj = nn.Linear(
            config.intermediate_size, config.hidden_size, bias=False
        )

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows [N, H]."""
        return self.down_proj(
            functional.silu(self.gate_proj(rows)) * self.up_proj(rows)
        )

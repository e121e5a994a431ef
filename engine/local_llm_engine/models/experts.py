"""A feed-forward network that is a choice of experts for each row, and one that every row passes (arXiv:1701.06538).

Owns the weights of one layer. Of the experts' weights only those of chosen experts are touched.
"""

from collections.abc import Callable, Container
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from ..weights.loader import WeightLoader
from .config import ExpertsConfig, ModelConfig
from .layers import FeedForward, Shapes, feed_forward_shapes, within

# An expert computes whole blocks of rows; what is more than chose it is thrown away. On a CPU torch keeps
# half a megabyte for each number of rows that it has met in bfloat16, and as many are few this way.
_BLOCK_ROWS = 8

# Applies one expert, by its index, to rows [N, H].
type ApplyExpert = Callable[[Tensor, int], Tensor]


def feed_forward_shapes_at(config: ModelConfig, layer: int) -> Shapes:
    """Name the tensors of one layer's feed-forward network, be it dense or a choice of experts."""
    if config.experts is not None and layer in config.experts.sparse_layers:
        return _sparse_shapes(config.experts, config.hidden_size)
    assert config.intermediate_size is not None
    return feed_forward_shapes(
        config.hidden_size, config.intermediate_size, bias=config.mlp_bias
    )


def make_feed_forward(
    config: ModelConfig, layer: int, loader: WeightLoader
) -> FeedForward | SparseFeedForward:
    """Take the weights that `feed_forward_shapes_at` names."""
    if config.experts is not None and layer in config.experts.sparse_layers:
        return SparseFeedForward(config.experts, loader)
    assert config.intermediate_size is not None
    return FeedForward(loader, config.intermediate_size, bias=config.mlp_bias)


def follow_layout(
    config: ModelConfig, names: Container[str], prefix: str
) -> ModelConfig:
    """Expect a layer's experts fused or each by itself, as a checkpoint has them that puts `prefix` before its names.

    The same model is found in both layouts: quantizers and converters take experts apart and put them together.
    """
    experts = config.experts
    if experts is None or not experts.sparse_layers:
        return config
    first = f"{prefix}layers.{min(experts.sparse_layers)}.mlp.experts."
    if f"{first}gate_up_proj" in names:
        return replace(config, experts=replace(experts, fused=True))
    if f"{first}0.gate_proj.weight" in names:
        return replace(config, experts=replace(experts, fused=False))
    return config


class SparseFeedForward:
    """The sum of a row's chosen experts, weighted, and of what all rows share."""

    def __init__(self, config: ExpertsConfig, loader: WeightLoader) -> None:
        """Take the weights that `feed_forward_shapes_at` names."""
        self._router = Router(config, loader)
        experts = FusedExperts if config.fused else SeparateExperts
        self._apply: ApplyExpert = experts(config, loader.within("experts."))
        self._shared = None
        if config.shared_expert_intermediate_size is not None:
            self._shared = SharedExpert(config.shared_expert_intermediate_size, loader)

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows [T, H] to [T, H]."""
        weights, chosen = self._router(rows)
        if rows.shape[0] == 1:
            outputs = torch.stack(
                [self._apply(rows, expert) for expert in chosen[0].tolist()], dim=1
            )
        else:
            outputs = self._apply_grouped(rows, chosen)
        mixed = torch.bmm(weights[:, None], outputs.float())[:, 0]
        if self._shared is not None:
            mixed = mixed + self._shared(rows)
        return mixed.to(rows.dtype)

    def _apply_grouped(self, rows: Tensor, chosen: Tensor) -> Tensor:
        """Apply every chosen expert once, to all rows that chose it; [T, k, H], in the order of `chosen`.

        What an expert computes for a row lands in a place of its own and is summed later, in the row's
        own order: no sum depends on the order of the experts.
        """
        num_rows, num_chosen = chosen.shape
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        sorted_rows = functional.pad(rows[order // num_chosen], (0, 0, 0, _BLOCK_ROWS))
        results = torch.empty(
            flat.shape[0], rows.shape[1], dtype=rows.dtype, device=rows.device
        )
        start = 0
        counts = flat.bincount(minlength=self._router.num_experts).tolist()
        for expert, count in enumerate(counts):
            if count:
                num_blocks = -(-count // _BLOCK_ROWS)
                block = sorted_rows[start : start + num_blocks * _BLOCK_ROWS]
                results[start : start + count] = self._apply(block, expert)[:count]
                start += count
        outputs = torch.empty_like(results)
        outputs[order] = results
        return outputs.view(num_rows, num_chosen, -1)


class Router:
    """Chooses experts, in float32 whatever the model's dtype: a rounded score may choose another expert."""

    def __init__(self, config: ExpertsConfig, loader: WeightLoader) -> None:
        """Take the weight [E, H]."""
        self.num_experts = config.num_experts
        self._weight = loader.vector("gate.weight")
        self._num_chosen = config.num_experts_per_tok
        self._normalizes = config.norm_topk_prob

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights, float32 [T, k], and the indices [T, k] of each row's experts, dearest first."""
        scores = functional.linear(rows.float(), self._weight).softmax(-1)
        weights, chosen = scores.topk(self._num_chosen, dim=-1)
        if self._normalizes:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights, chosen


class FusedExperts:
    """All experts' weights in two tensors, of which an expert's are views."""

    def __init__(self, _: ExpertsConfig, loader: WeightLoader) -> None:
        """Take `gate_up_proj` [E, 2I, H], of each expert the gate first, and `down_proj` [E, H, I]."""
        self._inward = loader.linear("gate_up_proj")
        self._outward = loader.linear("down_proj")

    def __call__(self, rows: Tensor, expert: int) -> Tensor:
        """Map rows [N, H] to [N, H]."""
        gate, up = self._inward[expert](rows).chunk(2, dim=-1)
        return self._outward[expert](functional.silu(gate) * up)


class SeparateExperts:
    """Experts of three tensors each."""

    def __init__(self, config: ExpertsConfig, loader: WeightLoader) -> None:
        """Take a feed-forward network an expert, named by its index."""
        self._experts = [
            FeedForward(loader.within(f"{expert}."), config.moe_intermediate_size)
            for expert in range(config.num_experts)
        ]

    def __call__(self, rows: Tensor, expert: int) -> Tensor:
        """Map rows [N, H] to [N, H]."""
        return self._experts[expert](rows)


class SharedExpert:
    """The expert of all rows, and the gate that says how much of it a row takes."""

    def __init__(self, intermediate_size: int, loader: WeightLoader) -> None:
        """Take `shared_expert` and `shared_expert_gate`."""
        self._expert = FeedForward(loader.within("shared_expert."), intermediate_size)
        self._gate = loader.linear("shared_expert_gate.weight")

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows [T, H] to float32 [T, H]."""
        share = self._gate(rows).float().sigmoid()
        return share * self._expert(rows).float()


def _sparse_shapes(config: ExpertsConfig, hidden_size: int) -> Shapes:
    inner = config.moe_intermediate_size
    shapes: Shapes = {"gate.weight": (config.num_experts, hidden_size)}
    if config.fused:
        shapes["experts.gate_up_proj"] = (config.num_experts, 2 * inner, hidden_size)
        shapes["experts.down_proj"] = (config.num_experts, hidden_size, inner)
    else:
        for expert in range(config.num_experts):
            shapes.update(
                within(f"experts.{expert}.", feed_forward_shapes(hidden_size, inner))
            )
    if config.shared_expert_intermediate_size is not None:
        shared = feed_forward_shapes(
            hidden_size, config.shared_expert_intermediate_size
        )
        shapes.update(within("shared_expert.", shared))
        shapes["shared_expert_gate.weight"] = (1, hidden_size)
    return shapes

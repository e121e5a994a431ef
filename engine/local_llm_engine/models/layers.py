"""The parts that every layer is made of: projections, norm and the feed-forward network.

They own their weights and no state. Beside each part stand its tensors' names and shapes, names
spelled as Hugging Face spells them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..ops.norms import rms_norm
from ..weights.loader import WeightLoader
from .config import ModelConfig

type Shapes = dict[str, tuple[int, ...]]


class Projections:
    """Linear projections of one input; a single product where their weights lie in one matrix."""

    def __init__(self, loader: WeightLoader, sizes: dict[str, int]) -> None:
        """Take the named weights [size, H]."""
        self._weights = loader.matrices([f"{name}.weight" for name in sizes])
        self._sizes = list(sizes.values())

    def __call__(self, rows: Tensor) -> Sequence[Tensor]:
        """Project rows [T, H] to one [T, size] for each name, in the order of the names."""
        if len(self._weights) == 1:
            return torch.split(
                functional.linear(rows, self._weights[0]), self._sizes, dim=-1
            )
        return [functional.linear(rows, weight) for weight in self._weights]


class ZeroCentredNorm:
    """RMS norm whose stored weights are the distance of the factors from 1."""

    def __init__(self, loader: WeightLoader, name: str, epsilon: float) -> None:
        """Take the weight [D]."""
        self._scale = loader.vector(f"{name}.weight") + 1.0
        self._epsilon = epsilon

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalize rows [..., D]; the result is float32."""
        return rms_norm(rows, self._scale, self._epsilon)


def feed_forward_shapes(config: ModelConfig) -> Shapes:
    """Name the tensors of one feed-forward network."""
    inner, outer = config.intermediate_size, config.hidden_size
    return {
        "gate_proj.weight": (inner, outer),
        "up_proj.weight": (inner, outer),
        "down_proj.weight": (outer, inner),
    }


class FeedForward:
    """A gated feed-forward network: down(silu(gate(x)) * up(x)) (arXiv:2002.05202)."""

    def __init__(self, config: ModelConfig, loader: WeightLoader) -> None:
        """Take the weights that `feed_forward_shapes` names."""
        self._inward = Projections(
            loader,
            {
                "gate_proj": config.intermediate_size,
                "up_proj": config.intermediate_size,
            },
        )
        self._outward = loader.matrix("down_proj.weight")

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows [T, H] to [T, H]."""
        gate, up = self._inward(rows)
        return functional.linear(functional.silu(gate) * up, self._outward)

"""The parts that every layer is made of: projections, norms and the feed-forward network.

They own their weights and no state. Beside each part stand its tensors' names and shapes, names
spelled as Hugging Face spells them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..ops.norms import rms_norm
from ..weights.loader import WeightLoader

type Shapes = dict[str, tuple[int, ...]]


def within(prefix: str, shapes: Shapes) -> Shapes:
    """Put a prefix before every name."""
    return {prefix + name: shape for name, shape in shapes.items()}


def linear_shapes(sizes: dict[str, int], num_inputs: int, *, bias: bool) -> Shapes:
    """Name the tensors of linear projections of one input."""
    shapes: Shapes = {
        f"{name}.weight": (size, num_inputs) for name, size in sizes.items()
    }
    if bias:
        shapes.update({f"{name}.bias": (size,) for name, size in sizes.items()})
    return shapes


class Projections:
    """Linear projections of one input; a single product where their weights lie in one matrix."""

    def __init__(
        self, loader: WeightLoader, sizes: dict[str, int], *, bias: bool = False
    ) -> None:
        """Take the named weights [size, H], and with `bias` what is added to each."""
        self._weights = loader.linears([f"{name}.weight" for name in sizes])
        self._sizes = list(sizes.values())
        self._biases: tuple[Tensor | None, ...] = (None,) * len(self._weights)
        if bias:
            biases = tuple(loader.bias(f"{name}.bias") for name in sizes)
            self._biases = (torch.cat(biases),) if len(self._weights) == 1 else biases

    def __call__(self, rows: Tensor) -> Sequence[Tensor]:
        """Project rows [T, H] to one [T, size] for each name, in the order of the names."""
        outputs = [
            weight(rows, bias)
            for weight, bias in zip(self._weights, self._biases, strict=True)
        ]
        if len(outputs) < len(self._sizes):
            return torch.split(outputs[0], self._sizes, dim=-1)
        return outputs


class Norm:
    """RMS norm over the last axis."""

    def __init__(self, loader: WeightLoader, name: str, epsilon: float) -> None:
        """Take the weight [D]."""
        self._scale = loader.vector(f"{name}.weight")
        self._epsilon = epsilon

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalize rows [..., D]; the result is float32."""
        return rms_norm(rows, self._scale, self._epsilon)


class ZeroCentredNorm(Norm):
    """RMS norm whose stored weights are the distance of the factors from 1."""

    def __init__(self, loader: WeightLoader, name: str, epsilon: float) -> None:
        """Take the weight [D]."""
        super().__init__(loader, name, epsilon)
        self._scale = self._scale + 1.0


def feed_forward_shapes(
    hidden_size: int, intermediate_size: int, *, bias: bool = False
) -> Shapes:
    """Name the tensors of one feed-forward network."""
    inward = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
    outward = {"down_proj": hidden_size}
    return {
        **linear_shapes(inward, hidden_size, bias=bias),
        **linear_shapes(outward, intermediate_size, bias=bias),
    }


class FeedForward:
    """A gated feed-forward network: down(silu(gate(x)) * up(x)) (arXiv:2002.05202)."""

    def __init__(
        self, loader: WeightLoader, intermediate_size: int, *, bias: bool = False
    ) -> None:
        """Take the weights that `feed_forward_shapes` names."""
        sizes = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
        self._inward = Projections(loader, sizes, bias=bias)
        self._outward = loader.linear("down_proj.weight")
        self._outward_bias = loader.bias("down_proj.bias") if bias else None

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows [T, H] to [T, H]."""
        gate, up = self._inward(rows)
        inner = functional.silu(gate) * up
        return self._outward(inner, self._outward_bias)

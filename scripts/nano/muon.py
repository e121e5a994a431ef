"""The optimizers: Muon for matrices, AdamW for all else.

Muon: momentum whose update is brought near to an orthogonal matrix by a Newton-Schulz iteration
(https://kellerjordan.github.io/posts/muon/).
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonal updates, for matrices [rows, columns]."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        """Keep one momentum for each matrix."""
        super().__init__(
            parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                momentum = state.setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 1 - group["momentum"])
                update = _orthogonal(parameter.grad.lerp(momentum, group["momentum"]))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                scale = max(1.0, parameter.shape[0] / parameter.shape[1]) ** 0.5
                parameter.add_(update, alpha=-group["lr"] * scale)


def _orthogonal(matrix: Tensor) -> Tensor:
    a, b, c = _COEFFICIENTS
    turned = matrix.shape[0] > matrix.shape[1]
    rows = matrix.mT if turned else matrix
    rows = rows / (rows.norm() + 1e-7)
    for _ in range(_ITERATIONS):
        square = rows @ rows.mT
        rows = a * rows + (b * square + c * square @ square) @ rows
    return rows.mT if turned else rows


def make_optimizers(
    network: nn.Module, *, matrix_lr: float, other_lr: float
) -> list[torch.optim.Optimizer]:
    """Make the optimizers of a network: Muon for the layers' matrices, AdamW for embedding, head, gates and norms."""
    matrices, tables, others = [], [], []
    for name, parameter in network.named_parameters():
        if "embed_tokens" in name or "lm_head" in name:
            tables.append(parameter)
        elif parameter.dim() == 2 and min(parameter.shape) > 16:
            matrices.append(parameter)
        else:
            others.append(parameter)
    return [
        Muon(matrices, lr=matrix_lr, weight_decay=0.01),
        torch.optim.AdamW(
            [
                {"params": tables, "weight_decay": 0.01},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=other_lr,
            betas=(0.9, 0.95),
        ),
    ]

"""Trains nano: draws, learns, examines, and keeps everything that it takes to go on exactly.

Owns a run's folder; knows nothing of how data is made.
"""

from dataclasses import asdict, dataclass
import json
from pathlib import Path
import shutil
import time
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer
import torch
from torch import Tensor
from torch.nn import functional

from .batches import IGNORED, Batch
from .chats import Chats
from .computing import choose_device, quickest_products
from .config import NanoConfig
from .curriculum import recipe_at
from .exact import examine, make_exams
from .export import STEPS
from .muon import make_optimizers
from .network import Nano
from .samples import draw_batch

CHECKPOINT = "checkpoint.pt"
_OTHER_WEIGHT = 0.05
# Of what nano does not write itself, only a part goes through the head; it counts the more.
_OTHER_SHARE = 0.2
_AVERAGING = 0.998
_LONGEST_GRADIENT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how fast to learn; `finish` steps before the end the rate begins to fall to nothing.

    Every `examine_every` steps there are exams in `exam_houses` houses of each of these sizes.
    """

    seed: int = 1
    steps: int = 12_000
    finish: int = 2_000
    warm_up: int = 100
    matrix_lr: float = 0.02
    other_lr: float = 3e-3
    examine_every: int = 250
    exam_sizes: tuple[int, ...] = (10, 20, 40)
    exam_houses: int = 5
    keep_minutes: float = 4.0

    def rate(self, step: int, begun_at: int) -> float:
        """Return the factor on both learning rates at a step of a run that began at another."""
        left = (self.steps - step) / self.finish if self.finish else 1.0
        return max(0.0, min(1.0, (step - begun_at + 1) / self.warm_up, left))


class Run:
    """One training run, in a folder."""

    def __init__(
        self, folder: Path, plan: Plan, config: NanoConfig, model: Path | None = None
    ) -> None:
        """Go on with the run that the folder holds, or begin one: from `model`, a folder that was exported, if given."""
        self.folder = folder
        self.plan = plan
        self.begun_at = self.step = 0
        torch.manual_seed(plan.seed)
        self.device = choose_device()
        self.network = Nano(config).to(self.device)
        is_new = not (folder / CHECKPOINT).exists()
        if is_new and model:
            self.begun_at = self.step = self._begin_with(model)
        self.chats = Chats(Tokenizer.from_file(str(folder / "tokenizer.json")))
        self.average = {
            name: tensor.clone() for name, tensor in self.network.state_dict().items()
        }
        self.optimizers = make_optimizers(
            self.network, matrix_lr=plan.matrix_lr, other_lr=plan.other_lr
        )
        self.rates = [
            [group["lr"] for group in optimizer.param_groups]
            for optimizer in self.optimizers
        ]
        self.seconds = 0.0
        if not is_new:
            self._load()

    def train(self) -> None:
        """Learn up to the plan's last step; stopped, it goes on from its last checkpoint."""
        exams = make_exams(
            self.chats,
            seed=1,
            sizes=self.plan.exam_sizes,
            houses=self.plan.exam_houses,
        )
        kept = start = time.monotonic()
        losses: list[float] = []
        while self.step < self.plan.steps:
            losses.append(self._learn(self._draw()))
            self.step += 1
            self._average()
            now = time.monotonic()
            self.seconds += now - start
            start = now
            if self.step % 20 == 0:
                self._log(
                    {
                        "step": self.step,
                        "loss": round(sum(losses) / len(losses), 4),
                        "rate": round(self.plan.rate(self.step, self.begun_at), 3),
                        "hours": round(self.seconds / 3600, 3),
                    }
                )
                losses.clear()
            if self.step % self.plan.examine_every == 0 or self.step == self.plan.steps:
                self._examine(exams)
            if now - kept > self.plan.keep_minutes * 60 or self.step == self.plan.steps:
                self._keep()
                kept = now

    def averaged(self) -> Nano:
        """Return the network with the running average of its weights."""
        network = Nano(self.network.config).to(self.device)
        network.load_state_dict(self.average)
        return network

    def _draw(self) -> Batch:
        """Draw the next step's batch.

        Not ahead, in another thread: torch would keep threads for that one too, and all of them would wait for each
        other more slowly, which costs half as much again as drawing saves.
        """
        recipe = recipe_at(self.step)
        seed = self.plan.seed
        batch = draw_batch(seed, self.step, recipe, self.chats, _OTHER_WEIGHT)
        return batch.to(self.device)

    def _learn(self, batch: Batch) -> float:
        factor = self.plan.rate(self.step, self.begun_at)
        for optimizer, rates in zip(self.optimizers, self.rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        chance = torch.rand(
            len(batch.targets), generator=torch.Generator().manual_seed(self.step)
        ).to(self.device)
        is_own = batch.weights == 1.0
        kept = (batch.targets != IGNORED) & (is_own | (chance < _OTHER_SHARE))
        weights = torch.where(is_own, 1.0, batch.weights / _OTHER_SHARE)[kept]
        with quickest_products(self.device):
            logits = self.network.lm_head(self.network.hidden(batch)[kept])
        losses = functional.cross_entropy(
            logits.float(), batch.targets[kept], reduction="none"
        )
        loss = (losses * weights).sum() / weights.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), _LONGEST_GRADIENT)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        own: Tensor = losses.detach()[is_own[kept]].mean()
        return float(own)

    @torch.no_grad()
    def _average(self) -> None:
        share = min(_AVERAGING, (self.step + 1) / (self.step + 10))
        for name, tensor in self.network.state_dict().items():
            self.average[name].lerp_(tensor, 1 - share)

    def _examine(self, exams: list[Any]) -> None:
        shares, kinds = examine(self.averaged(), exams)
        self._log(
            {
                "step": self.step,
                "right": {name: round(share, 3) for name, share in shares.items()},
                "kinds": {
                    name: f"{right}/{count}" for name, (right, count) in kinds.items()
                },
            }
        )

    def _log(self, entry: dict[str, Any]) -> None:
        line = json.dumps({"at": time.strftime("%H:%M:%S"), **entry})
        print(line, flush=True)
        with Path(self.folder, "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _keep(self) -> None:
        """Write the checkpoint so that there is a whole one at any moment."""
        fresh = self.folder / f"{CHECKPOINT}.new"
        torch.save(
            {
                "network": self.network.state_dict(),
                "average": self.average,
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "begun_at": self.begun_at,
                "step": self.step,
                "seconds": self.seconds,
                "plan": asdict(self.plan),
                "config": asdict(self.network.config),
            },
            fresh,
        )
        fresh.replace(self.folder / CHECKPOINT)

    def _load(self) -> None:
        kept = torch.load(
            self.folder / CHECKPOINT, map_location=self.device, weights_only=True
        )
        self.network.load_state_dict(kept["network"])
        self.average = kept["average"]
        for optimizer, state in zip(self.optimizers, kept["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.begun_at, self.step = kept["begun_at"], kept["step"]
        self.seconds = kept["seconds"]

    def _begin_with(self, model: Path) -> int:
        """Take weights and tokenizer of a model that was exported; returns how many steps it has learned."""
        shutil.copyfile(model / "tokenizer.json", self.folder / "tokenizer.json")
        weights = model / "model.safetensors"
        self.network.load_state_dict(load_file(weights))
        with safe_open(weights, "pt") as file:
            return int(file.metadata()[STEPS])

"""How a model in our own formats loads: the first time, which converts it, and the second; each in a process of its own.

Memory is what the process holds at most beyond what it held before the load, weights that are mapped included.
"""

import argparse
from dataclasses import asdict, dataclass
import json
from pathlib import Path
import re
import subprocess
import sys
import tempfile
import time

from demo_house.report import table
import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import load_model, plan_model

from .random_weights import random_model

PEAK_LIMIT = 1.15
SECOND_LIMIT_SECONDS = 5.0
# What Python and torch take for themselves in any load, however small the model.
_SPARED_BYTES = 64 << 20
_FORMATS = ("int4", "int8")
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load, in seconds and bytes; `weights_bytes` are those of the loaded model."""

    weights: str
    is_first: bool
    seconds: float
    peak_bytes: int
    weights_bytes: int

    @property
    def ok(self) -> bool:
        """Whether it keeps to what is promised."""
        is_quick = self.is_first or self.seconds <= SECOND_LIMIT_SECONDS
        most = self.weights_bytes * PEAK_LIMIT + _SPARED_BYTES
        return is_quick and self.peak_bytes <= most

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        return (
            self.weights,
            "first" if self.is_first else "second",
            f"{self.seconds:.1f} s",
            f"{self.peak_bytes / 1024**2:.0f} MiB",
            f"{self.weights_bytes / 1024**2:.0f} MiB",
            "yes" if self.ok else "NO",
        )


def bench(options: argparse.Namespace) -> int:
    """Load in every format twice, print, and return 0 where all loads keep to their limits."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.model or NANO_PATH
        if options.random_weights:
            folder = random_model(options.random_weights, Path(scratch))
        copy = Path(scratch) / "model"
        copy.mkdir()
        for file in folder.resolve().iterdir():
            if file.is_file():
                Path(copy, file.name).symlink_to(file)
        loads = [
            _load_apart(copy, weights, is_first=is_first)
            for weights in _FORMATS
            for is_first in (True, False)
        ]
    print(f"Loading {folder.resolve().name}\n")
    headings = ("weights", "load", "took", "memory at most", "weights' bytes", "ok")
    print(*table(headings, [load.cells() for load in loads]), sep="\n")
    is_kept = all(load.ok for load in loads)
    if options.json:
        values = {"ok": is_kept, "loads": [asdict(load) for load in loads]}
        options.json.write_text(json.dumps(values, indent=2) + "\n")
    return 0 if is_kept else 1


def _load_apart(folder: Path, weights: str, *, is_first: bool) -> Load:
    command = [sys.executable, "-P", "-m", "benches.loading", str(folder), weights]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Load(weights=weights, is_first=is_first, **json.loads(done.stdout))


def _load_here(folder: Path, config: EngineConfig) -> dict[str, float]:
    """Load and read one token, which brings mapped weights into memory, and measure."""
    weights_bytes = plan_model(folder, config).weights_bytes
    before = _memory("VmRSS")
    start = time.monotonic()
    model = load_model(folder, config)
    seconds = time.monotonic() - start
    model.logits(model.forward(torch.zeros(1, dtype=torch.int64), model.new_state(1)))
    return {
        "seconds": seconds,
        "peak_bytes": _memory("VmHWM") - before,
        "weights_bytes": weights_bytes,
    }


def _memory(name: str) -> int:
    """Ask the kernel for a number of this process, in bytes."""
    found = re.search(rf"{name}:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    print(
        json.dumps(
            _load_here(Path(sys.argv[1]), EngineConfig(weights=sys.argv[2]))  # type: ignore[arg-type]
        )
    )

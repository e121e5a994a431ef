"""What the machine could give: how quickly it reads memory and multiplies matrices, and whether others use it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import os
from pathlib import Path
import time
from types import MappingProxyType
from typing import Self

import torch
from torch import Tensor

_READ_BYTES = 1 << 29
_FEWEST_ROWS, _MOST_ROWS, _COLUMNS = 16, 1_024, 2_048
_LONG_SECONDS = 0.1
_ROUNDS = 5
_PRODUCTS: Mapping[torch.dtype, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        torch.float32: torch.matmul,
        torch.bfloat16: torch.matmul,
        torch.int8: torch._int_mm,  # noqa: SLF001 - torch has no public name for it
    }
)
# The first fields of /proc/stat that are time spent at work: user, nice, system, irq, softirq, steal.
_AT_WORK = (0, 1, 2, 5, 6, 7)
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePeaks:
    """The best of several rounds with as many threads as the engine has: bytes read a second, and operations a second by dtype."""

    read_bytes_per_second: float
    operations_per_second: dict[str, float]

    @classmethod
    def measure(cls) -> Self:
        """Read a tensor that no cache holds, and multiply matrices in every dtype that torch can."""
        floats = torch.ones(_READ_BYTES // 4)
        read_seconds = _best_seconds(floats.sum)
        rows, matrix = (
            torch.randn(_MOST_ROWS, _COLUMNS),
            torch.randn(_COLUMNS, _COLUMNS),
        )
        return cls(
            read_bytes_per_second=_READ_BYTES / read_seconds,
            operations_per_second={
                str(dtype).removeprefix("torch."): _operations_per_second(
                    rows.to(dtype), matrix.to(dtype), multiply
                )
                for dtype, multiply in _PRODUCTS.items()
            },
        )

    @property
    def most_operations_per_second(self) -> float:
        """The highest peak of all dtypes."""
        return max(self.operations_per_second.values())


class Others:
    """Looks how much of the machine others take meanwhile; where the system does not tell, nothing."""

    def __init__(self) -> None:
        """Begin to look."""
        self._start = time.monotonic()
        self._busy = _busy_seconds() - _own_seconds()

    def share(self) -> float:
        """Tell which share of all processors others had since the beginning."""
        passed = time.monotonic() - self._start
        others = _busy_seconds() - _own_seconds() - self._busy
        # What is counted in ticks may be a little more than there was.
        return min(1.0, max(0.0, others / (passed * (os.cpu_count() or 1))))


def _busy_seconds() -> float:
    if not _STAT.exists():
        return 0.0
    ticks = _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:]
    return sum(int(ticks[field]) for field in _AT_WORK) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Sum up this process and those that it has waited for."""
    return sum(os.times()[:4]) if _STAT.exists() else 0.0


def _operations_per_second(
    rows: Tensor, matrix: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]
) -> float:
    """Take more and more rows, until that takes long: a dtype that torch only emulates is slow with few."""
    best, num_rows = 0.0, _FEWEST_ROWS
    while num_rows <= _MOST_ROWS:
        some = rows[:num_rows]
        seconds = _best_seconds(lambda: multiply(some, matrix))  # noqa: B023 - called at once
        best = max(best, 2 * num_rows * matrix.numel() / seconds)
        if seconds > _LONG_SECONDS:
            break
        num_rows *= 2
    return best


def _best_seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)

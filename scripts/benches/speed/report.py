"""What a run found, as values, as JSON and as a table for a person."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from demo_house.report import table

from .cases import Case
from .machine import MachinePeaks
from .work import Work

_HEADINGS = ("", "ours", "bytes a token", "of reading", "of GEMM")
_PEER_HEADINGS = ("peer", "ratio", "at least", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The same work by ours and by the peer, one right after the other; `others_share` is of all processors."""

    seconds: float
    peer_seconds: float | None
    others_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One case: its samples, of which those count that nobody disturbed, where there are enough."""

    case: Case
    samples: Sequence[Sample]
    is_quiet: bool
    work: Work | None
    peaks: MachinePeaks
    has_limit: bool

    @property
    def seconds(self) -> float:
        """What ours took, the median."""
        return median(sample.seconds for sample in self.samples)

    @property
    def peer_seconds(self) -> float | None:
        """What the peer took, the median; None without one."""
        seconds = [sample.peer_seconds for sample in self.samples]
        known = [own for own in seconds if own is not None]
        return median(known) if known else None

    @property
    def ratio(self) -> float | None:
        """How many times as quick as the peer ours is."""
        return None if self.peer_seconds is None else self.peer_seconds / self.seconds

    @property
    def ok(self) -> bool:
        """Whether that is enough."""
        if self.ratio is None or not self.has_limit:
            return True
        return self.ratio >= self.case.least_ratio

    @property
    def read_share(self) -> float | None:
        """Which share of the machine's reading the bytes took that had to be read."""
        if self.work is None:
            return None
        return self.work.nbytes / self.seconds / self.peaks.read_bytes_per_second

    @property
    def gemm_share(self) -> float | None:
        """Which share of the machine's highest GEMM peak was used."""
        if self.work is None:
            return None
        used = self.work.operations / self.seconds
        return used / self.peaks.most_operations_per_second

    def as_json(self) -> dict[str, Any]:
        """Write everything that is known of it."""
        return {
            "name": self.case.name,
            "tokens": self.case.num_tokens,
            "depth": self.case.depth,
            "seconds": self.seconds,
            "tokens_per_second": self.case.num_tokens / self.seconds,
            "bytes_per_token": self.work and self.work.nbytes / self.case.num_tokens,
            "read_share": self.read_share,
            "gemm_share": self.gemm_share,
            "peer_seconds": self.peer_seconds,
            "ratio": self.ratio,
            "least_ratio": self.case.least_ratio if self.has_limit else None,
            "is_quiet": self.is_quiet,
            "samples": [asdict(sample) for sample in self.samples],
            "ok": self.ok,
        }

    def cells(self, *, with_peer: bool) -> tuple[str, ...]:
        """Write it for a person, with the peer's figures beside it."""
        work = self.work
        own = (
            self.case.name if self.is_quiet else f"{self.case.name} (disturbed)",
            self._speed(self.seconds),
            f"{work.nbytes / self.case.num_tokens / 1e6:.1f} MB" if work else "-",
            _percent(self.read_share),
            _percent(self.gemm_share),
        )
        if not with_peer or self.peer_seconds is None or self.ratio is None:
            return own
        return (
            *own,
            self._speed(self.peer_seconds),
            f"{self.ratio:.2f}",
            f"{self.case.least_ratio:.2f}" if self.has_limit else "-",
            "yes" if self.ok else "NO",
        )

    def _speed(self, seconds: float) -> str:
        if self.case.kind == "first token":
            return f"{seconds * 1000:.0f} ms"
        return f"{self.case.num_tokens / seconds:.1f} tok/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures, and of which model and machine they are."""

    model: str
    weights: str
    dtype: str
    capability: str
    num_threads: int
    peer: str | None
    peaks: MachinePeaks
    figures: Sequence[Figure]

    @property
    def ok(self) -> bool:
        """Whether every limit holds."""
        return all(figure.ok for figure in self.figures)

    @property
    def is_quiet(self) -> bool:
        """Whether nobody else used the machine meanwhile."""
        return all(figure.is_quiet for figure in self.figures)

    def as_json(self) -> dict[str, Any]:
        """Write everything."""
        return {
            "model": self.model,
            "weights": self.weights,
            "dtype": self.dtype,
            "capability": self.capability,
            "threads": self.num_threads,
            "peer": self.peer,
            "machine": asdict(self.peaks),
            "figures": [figure.as_json() for figure in self.figures],
            "ok": self.ok,
        }

    def __str__(self) -> str:
        """Write it for a person."""
        headings = _HEADINGS + (_PEER_HEADINGS if self.peer else ())
        peaks = ", ".join(
            f"{name} {value / 1e9:.0f} GFLOP/s"
            for name, value in self.peaks.operations_per_second.items()
        )
        return "\n".join(
            (
                f"{self.model} as {self.weights} in {self.dtype}, {self.num_threads} threads of {self.capability}",
                f"The machine: reads {self.peaks.read_bytes_per_second / 1e9:.1f} GB/s, multiplies {peaks}\n",
                *table(
                    headings,
                    [
                        figure.cells(with_peer=self.peer is not None)
                        for figure in self.figures
                    ],
                ),
            )
        )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"

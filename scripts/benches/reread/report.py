"""What a run found, as values, as JSON and as tables for a person."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any, Self

from demo_house.report import NO_DEVICE, table

from .engine import Call
from .limits import Limit
from .peer import Reading

MIB = 1024**2
SHARE_OF_ONE = 1.3
_HEADINGS = (
    "scenario",
    "satellite",
    "prompt",
    "reused",
    "re-read",
    "question",
    "first token",
    "at most",
    "which is",
    "ok",
)
_PEER_HEADINGS = ("| peer: prompt", "re-read", "first token", "re-reads", "takes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a request is about; those of one `group` that follow each other are one line of the table."""

    scenario: str
    satellite: str | None
    request: str
    answer: str = ""
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Subject):
    """What one request cost; `limit_tokens` None where nothing could be known before."""

    prompt_tokens: int
    reused_tokens: int
    reread_tokens: int
    question_tokens: int
    time_to_first_token_seconds: float
    outcome: str
    resumed_from: str | None
    divergence_token: int | None
    divergence_segment: str | None
    limit: str
    limit_tokens: int | None
    ok: bool
    peer_prompt_tokens: int | None
    peer_reread_tokens: int | None
    peer_seconds: float | None

    @classmethod
    def of(
        cls, subject: Subject, call: Call, limit: Limit, reading: Reading | None
    ) -> Self:
        """Put together what was measured."""
        usage, record = call.usage, call.record
        return cls(
            **asdict(subject),
            prompt_tokens=usage.prompt_tokens,
            reused_tokens=usage.reused_tokens,
            reread_tokens=usage.reread_tokens,
            question_tokens=usage.question_tokens,
            time_to_first_token_seconds=round(call.seconds, 4),
            outcome=str(record.outcome),
            resumed_from=record.resumed_from,
            divergence_token=record.divergence_token,
            divergence_segment=record.divergence_segment,
            limit=limit.words,
            limit_tokens=limit.tokens,
            ok=limit.allows(usage.reread_tokens),
            peer_prompt_tokens=reading.prompt_tokens if reading else None,
            peer_reread_tokens=reading.reread_tokens if reading else None,
            peer_seconds=round(reading.seconds, 4) if reading else None,
        )

    @property
    def surplus_tokens(self) -> int:
        """How many tokens were read beyond the limit; below zero where fewer."""
        return self.reread_tokens - (self.limit_tokens or self.prompt_tokens)

    def cells(self, *, with_peer: bool) -> tuple[str, ...]:
        """Write it for a person, with the peer's figures beside it."""
        return (
            self.scenario,
            self.satellite or NO_DEVICE,
            str(self.prompt_tokens),
            str(self.reused_tokens),
            str(self.reread_tokens),
            str(self.question_tokens),
            _seconds(self.time_to_first_token_seconds),
            "-" if self.limit_tokens is None else str(self.limit_tokens),
            self.limit,
            "yes" if self.ok else "NO",
            *(self._peer_cells() if with_peer else ()),
        )

    def _peer_cells(self) -> tuple[str, ...]:
        if (
            self.peer_prompt_tokens is None
            or self.peer_reread_tokens is None
            or self.peer_seconds is None
        ):
            return ("|", *("-" for _ in _PEER_HEADINGS[1:]))
        return (
            f"| {self.peer_prompt_tokens}",
            str(self.peer_reread_tokens),
            _seconds(self.peer_seconds),
            f"{self.peer_reread_tokens / self.reread_tokens:.1f} x",
            f"{self.peer_seconds / self.time_to_first_token_seconds:.1f} x",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the cache holds for one satellite and for all, in bytes, and the most that all may take.

    What is left of their questions is held only as long as there is room, and has no limit of its own: None.
    """

    what: str
    num_satellites: int
    bytes_of_one: int
    bytes_of_all: int
    limit_bytes: int | None

    @property
    def ok(self) -> bool:
        """Whether all are within the limit."""
        return self.limit_bytes is None or self.bytes_of_all <= self.limit_bytes

    def __str__(self) -> str:
        """Write it for a person."""
        held = (
            f"{self.what}: {self.bytes_of_one / MIB:.1f} MiB for 1 satellite,"
            f" {self.bytes_of_all / MIB:.1f} MiB for {self.num_satellites}"
        )
        if self.limit_bytes is None:
            return held
        return (
            f"{held}, at most {self.limit_bytes / MIB:.1f} MiB ({SHARE_OF_ONE} times that of 1, and a"
            f" checkpoint and its own section for each): {'ok' if self.ok else 'TOO MUCH'}"
        )


@dataclass(kw_only=True)
class Report:
    """All that a run found; grows while it runs."""

    model: str
    peer: str | None
    rows: list[Row] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every limit holds."""
        return all(row.ok for row in self.rows) and all(
            memory.ok for memory in self.memory
        )

    def as_json(self) -> dict[str, Any]:
        """Return what --json writes."""
        return {
            "model": self.model,
            "peer": self.peer,
            "rows": [asdict(row) for row in self.rows],
            "memory": [asdict(memory) | {"ok": memory.ok} for memory in self.memory],
            "ok": self.ok,
        }

    def __str__(self) -> str:
        """Write it for a person."""
        with_peer = self.peer is not None
        lines = table(
            (*_HEADINGS, *(_PEER_HEADINGS if with_peer else ())),
            [row.cells(with_peer=with_peer) for row in folded(self.rows)],
        )
        return "\n".join([*lines, "", *map(str, self.memory)])


def folded(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield rows without a group as they are, and of those that share one the farthest above its limit."""
    for group, members in groupby(rows, lambda row: row.group):
        if group is None:
            yield from members
            continue
        listed = list(members)
        worst = max(listed, key=lambda row: row.surplus_tokens)
        yield replace(worst, scenario=f"{group}, worst of {len(listed)}")


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"

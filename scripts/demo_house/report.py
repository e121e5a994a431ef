"""What a run of the demo found, as values, as JSON and as tables for a person."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, override

NO_DEVICE = "no device"
_HEADINGS = (
    "request",
    "satellite",
    "prompt",
    "reused",
    "re-read",
    "question",
    "first token",
    "answer",
    "ok",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one question cost, by its first model call, and what came of it."""

    request: str
    satellite: str | None
    prompt_tokens: int
    reused_tokens: int
    reread_tokens: int
    question_tokens: int
    time_to_first_token_seconds: float
    answer: str
    ok: bool

    @property
    def speaker(self) -> str:
        """Who asked, for a person."""
        return self.satellite or NO_DEVICE

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        return (
            self.request,
            self.speaker,
            str(self.prompt_tokens),
            str(self.reused_tokens),
            str(self.reread_tokens),
            str(self.question_tokens),
            f"{self.time_to_first_token_seconds * 1000:.0f} ms",
            self.answer,
            "yes" if self.ok else "NO",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How many tokens the first question of a speaker may read, and how many it read.

    The device's section reaches from what all devices share to the first word of the question.
    """

    satellite: str | None
    reread_tokens: int
    device_section_tokens: int
    question_tokens: int
    template_tokens: int
    warm: bool

    @property
    def tokens(self) -> int:
        """How many it may read: after a warm-up only what is around its own words."""
        section = 0 if self.warm else self.device_section_tokens
        return section + self.question_tokens + self.template_tokens

    @property
    def ok(self) -> bool:
        """Whether it read no more than it may."""
        return self.reread_tokens <= self.tokens

    @override
    def __str__(self) -> str:
        """Write it for a person."""
        section = (
            f"its section, {self.device_section_tokens} + "
            if not self.warm
            else f"not its section, {self.device_section_tokens}; "
        )
        return (
            f"{self.satellite or NO_DEVICE}: first question re-read {self.reread_tokens} tokens, "
            f"at most {self.tokens} ({section}question, {self.question_tokens} + {self.template_tokens}): "
            f"{'ok' if self.ok else 'TOO MANY'}"
        )


@dataclass(kw_only=True)
class Report:
    """All that a run found; grows while it runs. `faults` say in words what is wrong."""

    rows: list[Row] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    warm_up: list[dict[str, Any]] = field(default_factory=list)
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return what --json writes."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "limits": [
                asdict(limit) | {"limit_tokens": limit.tokens, "ok": limit.ok}
                for limit in self.limits
            ],
            "warm_up": self.warm_up,
            "states": self.states,
            "faults": self.faults,
        }

    @override
    def __str__(self) -> str:
        """Write it for a person."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for prompt in self.warm_up:
            yield (
                f"Warmed up {prompt['satellite'] or NO_DEVICE}: re-read {prompt['reread_tokens']} "
                f"of {prompt['prompt_tokens']} tokens in {prompt['seconds']:.2f} s"
            )
        yield ""
        yield from table(_HEADINGS, [row.cells() for row in self.rows])
        yield ""
        yield from map(str, self.limits)
        yield "\nWhat changed in the house:"
        for name, state in self.states.items():
            yield f"  {name}: {state['before']} -> {state['after']}"
        for fault in self.faults:
            yield f"\nWRONG: {fault}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Set rows of text in columns that are as wide as they must be; numbers stand to the right."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        cells = (
            cell.rjust(width) if number and cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(line, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)

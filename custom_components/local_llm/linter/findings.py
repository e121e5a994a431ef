"""What is found in an agent's instructions; values alone."""

from dataclasses import dataclass, field
from enum import StrEnum

from .source import Span


class Kind(StrEnum):
    """What makes a line change."""

    CLOCK = "clock"
    STATE = "state"
    ATTRIBUTE = "attribute"
    RANDOM = "random"
    USER = "user"
    COUNT = "count"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A line of the instructions that changes faster than daily.

    `source` is the entity or the domain on which it depends, None where that is all of them. What
    follows in the prompt after `position` characters of the instructions is read again with every
    change. `changes_per_day` is known for clocks alone. `span` are its characters in the source, and
    `value` is what an expression gave.
    """

    line: int
    text: str
    kind: Kind
    source: str | None = None
    attribute: str | None = None
    changes_per_day: int | None = None
    position: int = 0
    span: Span | None = None
    value: str | None = None


@dataclass(slots=True)
class Lint:
    """What was found, in the order of lines, and the text that the instructions gave."""

    text: str = ""
    findings: list[Finding] = field(default_factory=list)

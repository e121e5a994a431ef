"""Feeds one answer to a parser in every way of cutting it, and gathers what comes out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
import re
from typing import Any

from local_llm_engine.chat.output_parser import OutputParser
from local_llm_engine.chat.tool_call_syntax import Schemas
from local_llm_engine.types import (
    ContentDelta,
    Delta,
    InvalidToolCallDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
)

MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|>")


@dataclass(frozen=True)
class Control:
    """A control token in an answer."""

    text: str


type Unit = str | Control


@dataclass(frozen=True)
class Outcome:
    """What an answer came to, however its deltas were cut."""

    content: str
    thinking: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    invalid: tuple[tuple[str | None, str], ...]


def gather(deltas: Sequence[Delta]) -> Outcome:
    """Join the deltas of one answer."""
    return Outcome(
        content="".join(d.text for d in deltas if isinstance(d, ContentDelta)),
        thinking="".join(d.text for d in deltas if isinstance(d, ThinkingDelta)),
        calls=tuple(
            (d.tool_call.name, dict(d.tool_call.arguments))
            for d in deltas
            if isinstance(d, ToolCallDelta)
        ),
        invalid=tuple(
            (d.name, d.error) for d in deltas if isinstance(d, InvalidToolCallDelta)
        ),
    )


def with_tokens(answer: str) -> list[Unit]:
    """Make control tokens of an answer's markup, as a tokenizer with tokens for it does."""
    pieces = re.split(f"({'|'.join(map(re.escape, MARKUP))})", answer)
    units: list[Unit] = []
    for index, piece in enumerate(pieces):
        units += [Control(piece)] if index % 2 else list(piece)
    return units


def spelled(answer: str) -> list[Unit]:
    """Keep an answer's markup as characters, as a tokenizer without tokens for it does."""
    return list(answer)


def parse(
    units: Sequence[Unit], tools: Sequence[ToolSpec] = (), *, thinking: bool = False
) -> Outcome:
    """Parse an answer in every cut; all must come to the same."""
    has_tokens = any(isinstance(unit, Control) for unit in units)
    return parse_mixed(units, tools, thinking=thinking, has_tokens=has_tokens)


def parse_mixed(
    units: Sequence[Unit],
    tools: Sequence[ToolSpec] = (),
    *,
    thinking: bool = False,
    has_tokens: bool,
) -> Outcome:
    """Parse an answer in every cut, for a tokenizer that has or has not tokens for the markup."""

    def fresh() -> OutputParser:
        return OutputParser(
            Schemas(tools),
            thinking=thinking,
            control_texts=MARKUP if has_tokens else (),
        )

    outcomes = [_feed(fresh, pieces) for pieces in cuts(units)]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    return outcomes[0]


def cuts(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Cut an answer: whole, unit by unit, and in two at every place."""
    yield _joined(units)
    yield list(units)
    for place in range(1, len(units)):
        yield _joined(units[:place]) + _joined(units[place:])


def _joined(units: Sequence[Unit]) -> list[Unit]:
    pieces: list[Unit] = []
    for unit in units:
        if isinstance(unit, str) and pieces and isinstance(pieces[-1], str):
            pieces[-1] += unit
        else:
            pieces.append(unit)
    return pieces


def _feed(fresh: Callable[[], OutputParser], pieces: Sequence[Unit]) -> Outcome:
    parser = fresh()
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += (
            parser.feed_control(piece.text)
            if isinstance(piece, Control)
            else parser.feed_text(piece)
        )
    deltas += parser.finish()
    outcome = gather(deltas)
    assert parser.has_tool_calls == bool(outcome.calls or outcome.invalid)
    assert all(d.text for d in deltas if isinstance(d, ContentDelta | ThinkingDelta))
    return outcome

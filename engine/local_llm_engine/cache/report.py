"""Sums up a file of call records: who hit, what was read again, and where prompts parted."""

from collections.abc import Iterable, Iterator
import json
from pathlib import Path
from typing import Any, NamedTuple

from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.types import Outcome

GROUPS = ("purpose", "session", "adapter", "outcome")
_HEADINGS = ("requests", "could hit", "hits", "re-read", "of tokens", "first token")


class Totals(NamedTuple):
    """Sums over call records.

    Only requests that could hit (not first turns, nor first after a restart) are the denominator of
    `num_hits`: those that read again no more than their question and what the template puts around it.
    """

    num_requests: int
    num_could_hit: int
    num_hits: int
    reread_tokens: int
    prompt_tokens: int
    mean_first_token_seconds: float


def read_records(file: Path) -> list[dict[str, Any]]:
    """Read a file of records; a last line that a crash cut short is left out.

    Raises:
        InvalidRequestError: another line is no call record, or none is text; the message names file and line.
        OSError: the file cannot be read.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"{file} is no file of call records: it is not UTF-8 text"
        ) from error
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            record["usage"]["reread_tokens"], Outcome(record["outcome"])
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise InvalidRequestError(
                f"{file}, line {number} is no call record; right is JSON with usage and outcome, as an engine writes it"
            ) from error
        records.append(record)
    return records


def total(records: Iterable[dict[str, Any]]) -> Totals:
    """Sum records up."""
    listed = list(records)
    usages = [record["usage"] for record in listed]
    could_hit = [record for record in listed if Outcome(record["outcome"]).could_hit]
    return Totals(
        num_requests=len(listed),
        num_could_hit=len(could_hit),
        num_hits=sum(map(_is_hit, could_hit)),
        reread_tokens=sum(usage["reread_tokens"] for usage in usages),
        prompt_tokens=sum(usage["prompt_tokens"] for usage in usages),
        mean_first_token_seconds=sum(
            usage["time_to_first_token_seconds"] for usage in usages
        )
        / max(1, len(listed)),
    )


def report(records: list[dict[str, Any]]) -> str:
    """Write the sums by every grouping, then a line for each miss."""
    lines = [_row(("", *_HEADINGS)), _totals_row("all", total(records))]
    for group in GROUPS:
        names = sorted({str(record[group]) for record in records})
        lines += ["", f"by {group}"]
        lines += [
            _totals_row(
                name, total(record for record in records if str(record[group]) == name)
            )
            for name in names
        ]
    return "\n".join([*lines, "", "misses", *(_misses(records) or ["  none"])])


# The tokens that a chat template writes around a question, generously.
_AROUND_A_QUESTION = 16


def _is_hit(record: dict[str, Any]) -> bool:
    usage = record["usage"]
    return bool(usage["reread_tokens"] <= usage["question_tokens"] + _AROUND_A_QUESTION)


def _misses(records: list[dict[str, Any]]) -> list[str]:
    return [
        f"  {record['purpose']} of {record['session']}: {record['outcome']},"
        f" parted in {record['divergence_segment']} at token {record['divergence_token']},"
        f" re-read {record['usage']['reread_tokens']} of {record['usage']['prompt_tokens']}"
        for record in records
        if Outcome(record["outcome"]).could_hit and not _is_hit(record)
    ]


def _totals_row(name: str, totals: Totals) -> str:
    return _row(
        (
            f"  {name}",
            totals.num_requests,
            totals.num_could_hit,
            totals.num_hits,
            totals.reread_tokens,
            totals.prompt_tokens,
            f"{totals.mean_first_token_seconds:.3f} s",
        )
    )


def _row(cells: Iterable[object]) -> str:
    return "".join(_cells(cells)).rstrip()


def _cells(cells: Iterable[object]) -> Iterator[str]:
    for index, cell in enumerate(cells):
        yield f"{cell!s:<32}" if index == 0 else f"{cell!s:>12}"

"""Draws what a run found as bars: a prompt's tokens, and those of them that were read again."""

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from demo_house.report import NO_DEVICE

from ..bar_chart import BAR, OURS, PEER, draw_bars, label_rows
from .report import Report, Row, folded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PROMPT = "#e5e5e5"
_ROW_INCHES, _MARGIN_INCHES = 0.3, 1.5


def draw(report: Report, folder: Path) -> None:
    """Write reread.png and reread.svg, a bar for each line of the table; of equal lines, the longest."""
    rows = _lines(report)
    height = _MARGIN_INCHES + _ROW_INCHES * len(rows)
    draw_bars(folder, "reread", height, partial(_fill, report, rows))


def _fill(report: Report, rows: list[Row], axes: Axes) -> None:
    prompts = [row.prompt_tokens for row in rows]
    _bars(axes, 0, 2 * BAR, prompts, _PROMPT, "prompt")
    shift = BAR / 2 if report.peer else 0
    ours = [row.reread_tokens for row in rows]
    told = f"re-read by Local LLM ({report.model})"
    _numbered_bars(axes, -shift, ours, OURS, told)
    theirs = [row.peer_reread_tokens or 0 for row in rows]
    if report.peer:
        told = f"re-read by llama-server ({report.peer})"
        _numbered_bars(axes, shift, theirs, PEER, told)
    axes.margins(y=0.01)
    label_rows(
        axes,
        [_label(row) for row in rows],
        max(*prompts, *ours, *theirs),
        unit="tokens",
        num_kinds=3,
        scale="log",
    )


def _lines(report: Report) -> list[Row]:
    """Pick the lines to draw: those that the peer read too, where there is one."""
    rows = [
        row
        for row in folded(report.rows)
        if report.peer is None or row.peer_reread_tokens is not None
    ]
    return [
        max(equal, key=lambda row: row.reread_tokens)
        for _, equal in groupby(rows, lambda row: (row.scenario, row.satellite))
    ]


def _numbered_bars(
    axes: Axes, shift: float, tokens: list[int], color: str, told: str
) -> None:
    """Draw bars with their numbers at their ends."""
    _bars(axes, shift, BAR, tokens, color, told)
    for place, number in enumerate(tokens):
        axes.annotate(
            f"{number:,}",
            (max(number, 1), place + shift),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=6,
        )


def _bars(
    axes: Axes, shift: float, height: float, tokens: list[int], color: str, told: str
) -> None:
    places = [place + shift for place in range(len(tokens))]
    axes.barh(places, tokens, height=height, color=color, label=told)


def _label(row: Row) -> str:
    return f"{row.scenario} ({row.satellite or NO_DEVICE})"

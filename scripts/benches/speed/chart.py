"""Draws what a run found as bars: tokens per second of prefill and decode."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..bar_chart import BAR, OURS, PEER, draw_bars, label_rows
from .report import Figure, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_INCHES, _MARGIN_INCHES = 0.4, 1.2


def draw(report: Report, folder: Path) -> None:
    """Write speed.png and speed.svg."""
    figures = [own for own in report.figures if own.case.kind != "first token"]
    height = _MARGIN_INCHES + _ROW_INCHES * len(figures)
    draw_bars(folder, "speed", height, partial(_fill, report, figures))


def _fill(report: Report, figures: list[Figure], axes: Axes) -> None:
    ours = [own.case.num_tokens / own.seconds for own in figures]
    theirs = [
        own.case.num_tokens / own.peer_seconds if own.peer_seconds else 0.0
        for own in figures
    ]
    shift = BAR / 2 if report.peer else 0
    told = f"Local LLM ({report.model}, {report.weights})"
    _numbered_bars(axes, -shift, ours, OURS, told)
    if report.peer:
        _numbered_bars(axes, shift, theirs, PEER, f"llama.cpp ({report.peer})")
    label_rows(
        axes,
        [_label(own) for own in figures],
        max(1.0, *ours, *theirs),
        unit=f"tokens per second, {report.num_threads} threads",
        num_kinds=2,
        scale="linear",
    )


def _numbered_bars(
    axes: Axes, shift: float, speeds: list[float], color: str, told: str
) -> None:
    """Draw bars with their numbers at their ends."""
    places = [place + shift for place in range(len(speeds))]
    bars = axes.barh(places, speeds, height=BAR, color=color, label=told)
    axes.bar_label(bars, fmt="{:,.0f}", padding=2, fontsize=6)


def _label(figure: Figure) -> str:
    case = figure.case
    if case.kind == "prefill":
        return f"read {case.num_tokens:,} tokens"
    return f"write after {case.depth:,} tokens" if case.depth else "write"

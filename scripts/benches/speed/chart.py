"""Draws what a run found as bars, for documents: PNG and SVG."""

from pathlib import Path
from typing import TYPE_CHECKING

from .report import Figure, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "speed"
_OURS, _PEER = "#1f77b4", "#d62728"
_WIDTH_INCHES, _ROW_INCHES, _MARGIN_INCHES = 9, 0.4, 1.2
_BAR = 0.38
# So much to the right of the longest bar is left for its number.
_ROOM = 1.6


def draw(report: Report, folder: Path) -> None:
    """Write speed.png and speed.svg: tokens per second of prefill and decode."""
    # Takes a second to load, and only a chart needs it.
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure as Drawing  # noqa: PLC0415

    figures = [own for own in report.figures if own.case.kind != "first token"]
    folder.mkdir(parents=True, exist_ok=True)
    size = (_WIDTH_INCHES, _MARGIN_INCHES + _ROW_INCHES * len(figures))
    with rc_context({"svg.hashsalt": _NAME, "font.size": 8}):
        drawing = Drawing(figsize=size, layout="constrained")
        _fill(drawing.add_subplot(), report, figures)
        drawing.savefig(folder / f"{_NAME}.png", dpi=150, metadata={"Software": None})
        drawing.savefig(folder / f"{_NAME}.svg", metadata={"Date": None})


def _fill(axes: Axes, report: Report, figures: list[Figure]) -> None:
    ours = [own.case.num_tokens / own.seconds for own in figures]
    theirs = [
        own.case.num_tokens / own.peer_seconds if own.peer_seconds else 0.0
        for own in figures
    ]
    shift = _BAR / 2 if report.peer else 0
    told = f"Local LLM ({report.model}, {report.weights})"
    _numbered_bars(axes, -shift, ours, _OURS, told)
    if report.peer:
        _numbered_bars(axes, shift, theirs, _PEER, f"llama.cpp ({report.peer})")
    axes.set_yticks(range(len(figures)), [_label(own) for own in figures])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, _ROOM * max(1.0, *ours, *theirs))
    axes.set_xlabel(f"tokens per second, {report.num_threads} threads")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def _numbered_bars(
    axes: Axes, shift: float, speeds: list[float], color: str, told: str
) -> None:
    """Draw bars with their numbers at their ends."""
    places = [place + shift for place in range(len(speeds))]
    bars = axes.barh(places, speeds, height=_BAR, color=color, label=told)
    axes.bar_label(bars, fmt="{:,.0f}", padding=2, fontsize=6)


def _label(figure: Figure) -> str:
    case = figure.case
    if case.kind == "prefill":
        return f"read {case.num_tokens:,} tokens"
    return f"write after {case.depth:,} tokens" if case.depth else "write"

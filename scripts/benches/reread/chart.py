"""Draws what a run found as bars, for documents: PNG and SVG."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from demo_house.report import NO_DEVICE

from .report import Report, Row, folded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "reread"
_OURS, _PEER, _PROMPT = "#1f77b4", "#d62728", "#e5e5e5"
_WIDTH_INCHES, _ROW_INCHES, _MARGIN_INCHES = 9, 0.3, 1.5
_BAR = 0.38
# So much to the right of the longest bar is left for its number.
_ROOM = 1.6


def draw(report: Report, folder: Path) -> None:
    """Write reread.png and reread.svg, a bar for each line of the table; of equal lines, the longest."""
    # Takes a second to load, and only a chart needs it.
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = _lines(report)
    folder.mkdir(parents=True, exist_ok=True)
    size = (_WIDTH_INCHES, _MARGIN_INCHES + _ROW_INCHES * len(rows))
    with rc_context({"svg.hashsalt": _NAME, "font.size": 8}):
        figure = Figure(figsize=size, layout="constrained")
        _fill(figure.add_subplot(), report, rows)
        figure.savefig(folder / f"{_NAME}.png", dpi=150, metadata={"Software": None})
        figure.savefig(folder / f"{_NAME}.svg", metadata={"Date": None})


def _fill(axes: Axes, report: Report, rows: list[Row]) -> None:
    prompts = [row.prompt_tokens for row in rows]
    _bars(axes, 0, 2 * _BAR, prompts, _PROMPT, "prompt")
    shift = _BAR / 2 if report.peer else 0
    ours = [row.reread_tokens for row in rows]
    told = f"re-read by Local LLM ({report.model})"
    _numbered_bars(axes, -shift, ours, _OURS, told)
    theirs = [row.peer_reread_tokens or 0 for row in rows]
    if report.peer:
        told = f"re-read by llama-server ({report.peer})"
        _numbered_bars(axes, shift, theirs, _PEER, told)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xscale("log")
    axes.set_xlim(1, _ROOM * max(*prompts, *ours, *theirs))
    axes.set_xlabel("tokens")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)


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
    _bars(axes, shift, _BAR, tokens, color, told)
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

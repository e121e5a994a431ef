"""Charts of bars, a row for each line of a table, for documents: PNG and SVG, the same bytes for the same numbers.

Knows nothing of what the bars stand for.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, PEER = "#1f77b4", "#d62728"
BAR = 0.38
_WIDTH_INCHES = 9
_LEAST = {"linear": 0.0, "log": 1.0}
# So much to the right of the longest bar is left for its number.
_ROOM = {"linear": 1.1, "log": 1.6}


def draw_bars(
    folder: Path, name: str, height_inches: float, fill: Callable[[Axes], None]
) -> None:
    """Write NAME.png and NAME.svg into `folder`; `fill` draws."""
    # Takes a second to load, and only a chart needs it.
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": name, "font.size": 8}):
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
        fill(figure.add_subplot())
        figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def label_rows(
    axes: Axes,
    labels: Sequence[str],
    longest: float,
    *,
    unit: str,
    num_kinds: int,
    scale: Literal["linear", "log"],
) -> None:
    """Name the rows, from the top down, and the legend's kinds above; lengths reach up to `longest`."""
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xscale(scale)
    axes.set_xlim(_LEAST[scale], _ROOM[scale] * longest)
    axes.set_xlabel(unit)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), ncols=num_kinds, frameon=False
    )

"""Groups of bars: bars side by side around a tick, and the names of the groups."""

from collections.abc import Sequence
from typing import Any

from reports.charts.page import Axes

_WIDTH = 0.8
"""Width of a group; the ticks are 1 apart."""


def side_by_side(count: int) -> tuple[float, list[float]]:
    """Return the width of each of ``count`` bars of a group, and the distances of their middles from the tick."""
    width = _WIDTH / count
    return width, [(position - (count - 1) / 2.0) * width for position in range(count)]


def name_groups(ax: Axes, names: Sequence[str], **text: Any) -> None:
    """Write the names of groups below them, in Matplotlib's properties of ``text``, and draw a grid for the heights."""
    ax.set_xticks(range(len(names)), names, **text)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.grid(axis="y")

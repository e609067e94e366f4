"""Groups of bars: bars side by side around a tick, and the names of the groups."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from reports.charts.page import Axes

_Bar = TypeVar("_Bar")

_WIDTH = 0.8
"""Width of a group, in units of the distance between ticks."""


def side_by_side(bars: Iterable[_Bar]) -> tuple[float, list[tuple[float, _Bar]]]:
    """Return the width of a bar, and (offset, bar) of each bar of a group.

    The offset is the distance of the bar's middle from the tick of the group.
    """
    group = list(bars)
    width = _WIDTH / max(1, len(group))
    return width, [((position - (len(group) - 1) / 2.0) * width, bar) for position, bar in enumerate(group)]


def name_groups(ax: Axes, names: Sequence[str], **text: Any) -> None:
    """Write the names of groups below the axis, and draw a grid for the heights.

    ``text`` has Matplotlib's text properties of the names.
    """
    ax.set_xticks(range(len(names)), names, **text)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.grid(axis="y")

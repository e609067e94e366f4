"""Scatter on the page's first screen: distance from the optimum over decision time, a mark for each scheduler."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from reports.charts.page import Axes, Page
from reports.charts.palette import ALARM, GREEN, QUIET
from reports.charts.scales import LABEL, Scale
from reports.charts.series import HEIGHT, WIDTH, axes

_LETTER_PT, _LINE_PT = 10.4, 18.0
"""Approximate width of a letter and height of a line on a phone, where the text is largest."""

_MARK_PT = 9.0
"""Diameter of a mark."""

_NEAR = (
    *((12.0, -4.0, "left"), (-12.0, -4.0, "right"), (0.0, 11.0, "center"), (0.0, -22.0, "center")),
    *((11.0, 8.0, "left"), (11.0, -16.0, "left"), (-11.0, 8.0, "right"), (-11.0, -16.0, "right")),
)
_FAR = ((0.0, 27.0, "center"), (0.0, 43.0, "center"))
"""Positions of a name, near its mark and far from it: offsets to the right and up in points, and the alignment.

The first position without an overlap is taken.
"""

Box = tuple[float, float, float, float]
"""Left, lower, right and upper end in points."""


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """Mark of a scheduler.

    Attributes
    ----------
    name
        Name of the scheduler; its parameters, if any, follow in parentheses.
    time_s
        Least, median and largest decision time of its runs.
    distance_pct
        Least, mean and largest distance over the instances, in percent. The distance is the gap of a plan to the
        certified bound, or to the best known value if some plans have no certified bound.
    holds
        Whether its plans hold: ``False`` if a plan does not, ``True`` if all do, ``None`` if some are not tested.
    words
        Remark: the number of plans that hold.
    """

    name: str
    time_s: tuple[float, float, float]
    distance_pct: tuple[float, float, float]
    holds: bool | None
    words: str


HELD = {True: "all plans hold", False: "workloads are late", None: "not tested"}
"""Meanings of the marks, by whether the plans of a scheduler hold."""

_STYLES: dict[bool | None, dict[str, Any]] = {
    True: {"marker": "o", "color": GREEN, "markerfacecolor": GREEN},
    False: {"marker": "x", "color": ALARM},
    None: {"marker": "o", "color": QUIET, "markerfacecolor": "none"},
}


def draw_tradeoffs(tradeoffs: Sequence[Tradeoff], x: Scale, y: Scale) -> Page:
    """Draw the marks of schedulers; the mark with number n has the gid ``point-n``."""
    sheet, ax = axes(x.title, y.title)
    x.set_x(ax, [time for tradeoff in tradeoffs for time in tradeoff.time_s], tick_count=5)
    low, high = y.set_y(ax, [], tick_count=5)
    for number, tradeoff in enumerate(tradeoffs):
        _draw(ax, number, tradeoff, low, high)
    pixel_points = [
        ax.transData.transform((tradeoff.time_s[1], min(max(tradeoff.distance_pct[1], low), high)))
        for tradeoff in tradeoffs
    ]
    points = [(72.0 / sheet.dpi * left, 72.0 / sheet.dpi * up) for left, up in pixel_points]
    for number, (name, left, up, align) in _labels(tradeoffs, points):
        ax.annotate(
            name, points[number], (left, up), "figure points", "offset points", ha=align, fontsize=LABEL["fontsize"]
        )
    return sheet


def _draw(ax: Axes, number: int, tradeoff: Tradeoff, low: float, high: float) -> None:
    style = _STYLES[tradeoff.holds]
    shortest_s, typical_s, longest_s = tradeoff.time_s
    least_pct, typical_pct, largest_pct = (min(max(value, low), high) for value in tradeoff.distance_pct)
    line_style: dict[str, Any] = {"color": style["color"], "linewidth": 1.0, "alpha": 0.45, "solid_capstyle": "butt"}
    ax.plot([typical_s, typical_s], [least_pct, largest_pct], **line_style)
    ax.plot([shortest_s, longest_s], [typical_pct, typical_pct], **line_style)
    ax.plot(
        [typical_s],
        [typical_pct],
        **style,
        markersize=_MARK_PT,
        markeredgewidth=2.0,
        gid=f"point-{number}",
        clip_on=False,
    )


def _labels(
    tradeoffs: Sequence[Tradeoff], points: Sequence[tuple[float, float]]
) -> Iterator[tuple[int, tuple[str, float, float, str]]]:
    """Yield the number of each scheduler whose name has room, and the name with its offset and alignment.

    Near positions are tried before far ones, and the full name before the name without parameters.
    """
    occupied = [(left - 7.0, up - 7.0, left + 7.0, up + 7.0) for left, up in points]
    for number, (tradeoff, (left, up)) in enumerate(zip(tradeoffs, points, strict=True)):
        mark_box = occupied[number]
        choices = product((_NEAR, _FAR), (tradeoff.name, tradeoff.name.split(" (")[0]))
        candidates = ((name, position) for positions, name in choices for position in positions)
        for name, position in candidates:
            if _is_free(_box(name, left, up, position), mark_box, occupied):
                occupied.append(_box(name, left, up, position))
                yield number, (name, *position)
                break


def _box(name: str, left: float, up: float, position: tuple[float, float, str]) -> Box:
    x_offset, y_offset, align = position
    width = _LETTER_PT * len(name)
    start = left + x_offset - {"left": 0.0, "center": width / 2.0, "right": width}[align]
    return start, up + y_offset - 4.0, start + width, up + y_offset + _LINE_PT - 4.0


def _is_free(box: Box, mark_box: Box, occupied: Sequence[Box]) -> bool:
    """Return whether a box overlaps neither the labels of the axes nor an occupied box other than ``mark_box``."""
    if box[0] < 60.0 or box[1] < 34.0 or box[2] > WIDTH - 2.0 or box[3] > HEIGHT - 16.0:
        return False
    return not any(_overlap(box, other) for other in occupied if other is not mark_box)


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]

"""Scatter of the page's first screen: distance over decision time, one mark with its name per scheduler."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from reports.charts.page import Axes, Page
from reports.charts.palette import ALARM, GREEN, QUIET
from reports.charts.scales import LABEL, Scale
from reports.charts.series import HEIGHT, WIDTH, axes

_LETTER_PT, _LINE_PT = 10.4, 18.0
"""Approximate size of a letter on a phone, where the page enlarges the text most."""

_MARK_PT = 9.0
_NEAR = (
    *((12.0, -4.0, "left"), (-12.0, -4.0, "right"), (0.0, 11.0, "center"), (0.0, -22.0, "center")),
    *((11.0, 8.0, "left"), (11.0, -16.0, "left"), (-11.0, 8.0, "right"), (-11.0, -16.0, "right")),
)
_FAR = ((0.0, 27.0, "center"), (0.0, 43.0, "center"))
"""Places of a name around its mark, in points, and its alignment; the best first."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """Scheduler with the least, the typical and the largest decision time and distance, and whether its plans hold."""

    name: str
    time_s: tuple[float, float, float]
    distance_pct: tuple[float, float, float]
    holds: bool | None
    words: str


HELD = {True: "all plans hold", False: "workloads are late", None: "not tested"}
"""Meanings of the marks."""

_STYLES: dict[bool | None, dict[str, Any]] = {
    True: {"marker": "o", "color": GREEN, "markerfacecolor": GREEN},
    False: {"marker": "x", "color": ALARM},
    None: {"marker": "o", "color": QUIET, "markerfacecolor": "none"},
}


def draw_tradeoffs(found: Sequence[Tradeoff], x: Scale, y: Scale) -> Page:
    """Draw schedulers; the mark of the one with number n has the gid ``point-n``."""
    sheet, ax = axes(x.title, y.title)
    x.set_x(ax, [time for one in found for time in one.time_s], most=5)
    low, high = y.set_y(ax, [], most=5)
    for number, one in enumerate(found):
        _draw(ax, number, one, low, high)
    places = [ax.transData.transform((one.time_s[1], min(max(one.distance_pct[1], low), high))) for one in found]
    points = [(72.0 / sheet.dpi * left, 72.0 / sheet.dpi * up) for left, up in places]
    for number, (name, left, up, align) in _labels(found, points):
        ax.annotate(
            name, points[number], (left, up), "figure points", "offset points", ha=align, fontsize=LABEL["fontsize"]
        )
    return sheet


def _draw(ax: Axes, number: int, one: Tradeoff, low: float, high: float) -> None:
    style = _STYLES[one.holds]
    fast, usual, slow = one.time_s
    least, mean, most = (min(max(value, low), high) for value in one.distance_pct)
    spread: dict[str, Any] = {"color": style["color"], "linewidth": 1.0, "alpha": 0.45, "solid_capstyle": "butt"}
    ax.plot([usual, usual], [least, most], **spread)
    ax.plot([fast, slow], [mean, mean], **spread)
    ax.plot([usual], [mean], **style, markersize=_MARK_PT, markeredgewidth=2.0, gid=f"point-{number}", clip_on=False)


def _labels(
    found: Sequence[Tradeoff], points: Sequence[tuple[float, float]]
) -> Iterator[tuple[int, tuple[str, float, float, str]]]:
    """Yield the names that have room, with their offsets and alignments; a name without room loses its parameters."""
    taken = [(left - 7.0, up - 7.0, left + 7.0, up + 7.0) for left, up in points]
    for number, (one, (left, up)) in enumerate(zip(found, points, strict=True)):
        own = taken[number]
        choices = product((_NEAR, _FAR), (one.name, one.name.split(" (")[0]))
        candidates = ((name, place) for places, name in choices for place in places)
        for name, place in candidates:
            if _is_free(_box(name, left, up, place), own, taken):
                taken.append(_box(name, left, up, place))
                yield number, (name, *place)
                break


def _box(name: str, left: float, up: float, place: tuple[float, float, str]) -> Box:
    right, above, align = place
    width = _LETTER_PT * len(name)
    start = left + right - {"left": 0.0, "center": width / 2.0, "right": width}[align]
    return start, up + above - 4.0, start + width, up + above + _LINE_PT - 4.0


def _is_free(box: Box, own: Box, taken: Sequence[Box]) -> bool:
    if box[0] < 60.0 or box[1] < 34.0 or box[2] > WIDTH - 2.0 or box[3] > HEIGHT - 16.0:
        return False
    others = (other for other in taken if other is not own)
    return not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in others)

"""Charts of the page: named series of points on one pair of axes, without a legend of their own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports.charts.page import Axes, Page, page
from reports.charts.palette import QUIET, LineStyle, pale
from reports.charts.scales import LABEL, Scale

WIDTH, HEIGHT = 600.0, 300.0
"""Size of a chart in points. The page scales it to the room that there is, and its text to a readable size."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 16.0, 30.0, 46.0
_TICKS_ACROSS, _TICKS_UP = 6, 6
"""Numbers of ticks whose labels have room on a phone."""

_LINE_PT, _MARK_PT = 1.5, 9.5

_LINES = ("-", "--", "-.", (0, (8.0, 3.0)))
_FACES = ("full", "hollow", "half")
"""Lines and fills of the variants of a scheduler, which share its colour and marker."""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Points of one entrant.

    Attributes
    ----------
    name, kind
        The entrant, and what the points are, such as ``plan``; possibly empty.
    look, variant
        Style of its scheduler, and its number among the entrants of this scheduler.
    points
        Places of the points, by x.
    words
        A further remark on each point; empty without remarks.
    line
        How the points are joined.
    marked
        Positions of the points with a mark; ``None`` for all.
    spans
        Least and largest value at each point; empty without.
    until
        End of a line with steps.
    fill
        Fill of the marks, if it says something of its own.
    """

    name: str
    look: LineStyle
    points: Sequence[tuple[float, float]]
    kind: str = ""
    variant: int = 0
    words: Sequence[str] = ()
    line: Literal["", "straight", "steps", "dotted steps"] = "straight"
    marked: Sequence[int] | None = None
    spans: Sequence[tuple[float, float]] = ()
    until: float | None = None
    fill: str | None = None

    @property
    def marks(self) -> Sequence[int]:
        """Positions of the points with a mark."""
        return range(len(self.points)) if self.marked is None else self.marked

    def corners(self) -> list[int]:
        """Return the positions of the points that change the line or have a mark."""
        values, marked = [value for _, value in self.points], set(self.marks)
        ends = (0, len(values) - 1)
        return [
            at
            for at, value in enumerate(values)
            if at in marked or at in ends or not values[at - 1] == value == values[at + 1]
        ]

    @property
    def stroke(self) -> Any:
        """Line style in Matplotlib's terms."""
        if self.line in ("", "dotted steps"):
            return ":" if self.line else ""
        own = "-" if self.line == "steps" else self.look.line
        choice = [own, *(line for line in _LINES if line != own)]
        return choice[self.variant % len(choice)]

    @property
    def face(self) -> str:
        """Fill of the marks: ``full``, ``hollow`` or ``half``."""
        return _FACES[(self.variant + self.variant // len(_LINES)) % len(_FACES)]

    def title(self, at: int, x: Scale, y: Scale) -> str:
        """Return the words of a point."""
        place, value = self.points[at]
        lines = [f"{self.name}, {self.kind}" if self.kind else self.name, *self.words[at : at + 1]]
        return "\n".join([*lines, f"{x.words(place)}{x.unit}: {y.words(value)}{y.unit}"])


@dataclass(frozen=True, slots=True)
class Rule:
    """Guide line at ``x``, at ``y``, or where both are equal if neither is given; ``title`` stands beside it."""

    x: float | None = None
    y: float | None = None
    title: str = ""


def draw_series(series: Sequence[ChartSeries], x: Scale, y: Scale, rules: Iterable[Rule] = ()) -> Page:
    """Draw series into a page of their own; the artists of the series with number n have the gid ``series-n``."""
    across = [value for one in series for value, _ in one.points]
    across += [one.until for one in series if one.until is not None]
    up = [value for one in series for _, value in one.points] + [
        end for one in series for span in one.spans for end in span
    ]
    sheet, ax = axes(x.title, y.title)
    ends = x.set_x(ax, across, _TICKS_ACROSS), y.set_y(ax, up, _TICKS_UP)
    for rule in rules:
        _draw_rule(ax, rule, ends)
    for number, one in enumerate(series):
        _draw(ax, one, f"series-{number}", ends)
    return sheet


def axes(x_title: str, y_title: str) -> tuple[Page, Axes]:
    """Return an empty page of a chart, with titles at the ends of its axes, and these axes."""
    sheet = page(WIDTH / 72.0, HEIGHT / 72.0)
    sheet.set_layout_engine("none")
    room = (_LEFT / WIDTH, _BOTTOM / HEIGHT, (WIDTH - _LEFT - _RIGHT) / WIDTH, (HEIGHT - _TOP - _BOTTOM) / HEIGHT)
    ax = sheet.add_axes(room)
    ax.spines[:].set_visible(False)
    sheet.text(0.0, 1.0 - 14.0 / HEIGHT, y_title, **LABEL)
    sheet.text(1.0 - _RIGHT / WIDTH, 4.0 / HEIGHT, x_title, ha="right", **LABEL)
    return sheet, ax


def _draw(ax: Axes, one: ChartSeries, gid: str, ends: tuple[tuple[float, float], ...]) -> None:
    kept = one.corners()
    inside = [
        [min(max(value, low), high) for value in values]
        for values, (low, high) in zip(zip(*one.points, strict=True), ends, strict=True)
    ]
    places, values = ([axis[at] for at in kept] for axis in inside)
    marked = set(one.marks)
    marks = [position for position, at in enumerate(kept) if at in marked]
    if one.until is not None:
        places, values = [*places, max(one.until, places[-1])], [*values, values[-1]]
    colour = one.look.colour
    fill = one.fill or {"full": colour, "hollow": "#FFFFFF", "half": pale(colour)}[one.face]
    ax.plot(
        places,
        values,
        color=colour,
        linestyle=one.stroke,
        linewidth=_LINE_PT,
        drawstyle="steps-post" if "steps" in one.line else "default",
        marker=one.look.marker,
        markersize=_MARK_PT,
        markevery=marks,
        markerfacecolor=fill,
        markeredgecolor="#FFFFFF" if fill == colour else colour,
        markeredgewidth=0.8 if fill == colour else 1.2,
        clip_on=False,  # marks at the ends of the axes stay whole
        gid=gid,
    )
    if one.spans:
        low, high = ends[1]
        least, most = ([min(max(end, low), high) for end in span] for span in zip(*one.spans, strict=True))
        ax.vlines(inside[0], least, most, color=colour, linewidth=_LINE_PT, gid=gid)


def _draw_rule(ax: Axes, rule: Rule, ends: tuple[tuple[float, float], ...]) -> None:
    style: dict[str, Any] = {"color": QUIET, "linewidth": 1.0, "linestyle": (0, (4.0, 3.0))}
    if rule.x is not None:
        ax.axvline(rule.x, **style)
    elif rule.y is not None:
        ax.axhline(rule.y, **style)
    else:
        low, high = (max(end) for end in zip(*ends, strict=True))
        ax.plot((low, high), (low, high), **style)
    if rule.title:
        ax.annotate(rule.title, (rule.x or 0.0, 0.0), (5, 8), ("data", "axes fraction"), "offset points", **LABEL)

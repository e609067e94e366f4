"""Charts of the page: named series of points on one pair of axes; the page has the legend."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports.charts.page import Axes, Page, page
from reports.charts.palette import QUIET, LineStyle, pale
from reports.charts.scales import LABEL, Scale

WIDTH, HEIGHT = 600.0, 300.0
"""Size of a chart in points. The page scales the chart to the available width, and its text to a readable size."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 16.0, 30.0, 46.0
"""Margins around the axes in points."""

_TICKS_ACROSS, _TICKS_UP = 6, 6
"""Numbers of ticks on the two axes whose labels have room on a phone."""

_LINE_PT, _MARK_PT = 1.5, 9.5

_LINES = ("-", "--", "-.", (0, (8.0, 3.0)))
_FACES = ("full", "hollow", "half")
"""Fills of marks. Variants of a scheduler have its colour and marker, but different lines and fills."""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Points of one entrant.

    Attributes
    ----------
    name, kind
        The entrant, and the kind of its points, such as ``plan``; ``kind`` may be empty.
    look, variant
        Style of the entrant's scheduler, and the entrant's position among the entrants of this scheduler.
    points
        Coordinates (x, y) of the points, ordered by x.
    words
        Remark on each point; empty without remarks.
    line
        Kind of line through the points; empty without a line.
    marked
        Positions of the points with a mark; ``None`` if all points have a mark.
    spans
        Smallest and largest value at each point; empty without spans.
    until
        Right end of a line with steps.
    fill
        Fill of the marks; ``None`` for the fill of the variant.
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
        """Return the positions of the points that change the line, have a mark, or end the line."""
        values, marked = [value for _, value in self.points], set(self.marks)
        end_positions = (0, len(values) - 1)
        return [
            position
            for position, value in enumerate(values)
            if position in marked
            or position in end_positions
            or not values[position - 1] == value == values[position + 1]
        ]

    @property
    def stroke(self) -> Any:
        """Line style of Matplotlib."""
        if self.line in ("", "dotted steps"):
            return ":" if self.line else ""
        scheduler_line = "-" if self.line == "steps" else self.look.line
        lines = [scheduler_line, *(line for line in _LINES if line != scheduler_line)]
        return lines[self.variant % len(lines)]

    @property
    def face(self) -> str:
        """Fill of the marks: ``full``, ``hollow`` or ``half``."""
        # Variants with the same line, which are ``len(_LINES)`` apart, have different fills.
        return _FACES[(self.variant + self.variant // len(_LINES)) % len(_FACES)]

    def title(self, position: int, x: Scale, y: Scale) -> str:
        """Return the title of a point, by its position."""
        x_value, value = self.points[position]
        lines = [f"{self.name}, {self.kind}" if self.kind else self.name, *self.words[position : position + 1]]
        return "\n".join([*lines, f"{x.words(x_value)}{x.unit}: {y.words(value)}{y.unit}"])


@dataclass(frozen=True, slots=True)
class Rule:
    """Guide line at ``x`` or at ``y``; without both, the line x = y. ``title`` is written beside the line."""

    x: float | None = None
    y: float | None = None
    title: str = ""


def draw_series(series: Sequence[ChartSeries], x: Scale, y: Scale, rules: Iterable[Rule] = ()) -> Page:
    """Draw series on a new page; the artists of the series with number n have the gid ``series-n``."""
    x_values = [value for chart_series in series for value, _ in chart_series.points]
    x_values += [chart_series.until for chart_series in series if chart_series.until is not None]
    y_values = [value for chart_series in series for _, value in chart_series.points] + [
        value for chart_series in series for span in chart_series.spans for value in span
    ]
    sheet, ax = axes(x.title, y.title)
    limits = x.set_x(ax, x_values, _TICKS_ACROSS), y.set_y(ax, y_values, _TICKS_UP)
    for rule in rules:
        _draw_rule(ax, rule, limits)
    for number, chart_series in enumerate(series):
        _draw(ax, chart_series, f"series-{number}", limits)
    return sheet


def axes(x_title: str, y_title: str) -> tuple[Page, Axes]:
    """Return an empty page of a chart and its axes, with titles at the ends of the axes."""
    sheet = page(WIDTH / 72.0, HEIGHT / 72.0)
    sheet.set_layout_engine("none")
    axes_box = (_LEFT / WIDTH, _BOTTOM / HEIGHT, (WIDTH - _LEFT - _RIGHT) / WIDTH, (HEIGHT - _TOP - _BOTTOM) / HEIGHT)
    ax = sheet.add_axes(axes_box)
    ax.spines[:].set_visible(False)
    sheet.text(0.0, 1.0 - 14.0 / HEIGHT, y_title, **LABEL)
    sheet.text(1.0 - _RIGHT / WIDTH, 4.0 / HEIGHT, x_title, ha="right", **LABEL)
    return sheet, ax


def _draw(ax: Axes, chart_series: ChartSeries, gid: str, limits: tuple[tuple[float, float], ...]) -> None:
    corners = chart_series.corners()
    clipped = [
        [min(max(value, low), high) for value in axis_values]
        for axis_values, (low, high) in zip(zip(*chart_series.points, strict=True), limits, strict=True)
    ]
    x_values, y_values = ([axis[corner] for corner in corners] for axis in clipped)
    marked = set(chart_series.marks)
    marks = [position for position, corner in enumerate(corners) if corner in marked]
    if chart_series.until is not None:
        x_values, y_values = [*x_values, max(chart_series.until, x_values[-1])], [*y_values, y_values[-1]]
    colour = chart_series.look.colour
    fill = chart_series.fill or {"full": colour, "hollow": "#FFFFFF", "half": pale(colour)}[chart_series.face]
    ax.plot(
        x_values,
        y_values,
        color=colour,
        linestyle=chart_series.stroke,
        linewidth=_LINE_PT,
        drawstyle="steps-post" if "steps" in chart_series.line else "default",
        marker=chart_series.look.marker,
        markersize=_MARK_PT,
        markevery=marks,
        markerfacecolor=fill,
        markeredgecolor="#FFFFFF" if fill == colour else colour,
        markeredgewidth=0.8 if fill == colour else 1.2,
        clip_on=False,  # keeps whole marks at the ends of the axes
        gid=gid,
    )
    if chart_series.spans:
        low, high = limits[1]
        lower_ends, upper_ends = (
            [min(max(end, low), high) for end in span] for span in zip(*chart_series.spans, strict=True)
        )
        ax.vlines(clipped[0], lower_ends, upper_ends, color=colour, linewidth=_LINE_PT, gid=gid)


def _draw_rule(ax: Axes, rule: Rule, limits: tuple[tuple[float, float], ...]) -> None:
    style: dict[str, Any] = {"color": QUIET, "linewidth": 1.0, "linestyle": (0, (4.0, 3.0))}
    if rule.x is not None:
        ax.axvline(rule.x, **style)
    elif rule.y is not None:
        ax.axhline(rule.y, **style)
    else:
        low, high = (max(bounds) for bounds in zip(*limits, strict=True))
        ax.plot((low, high), (low, high), **style)
    if rule.title:
        ax.annotate(rule.title, (rule.x or 0.0, 0.0), (5, 8), ("data", "axes fraction"), "offset points", **LABEL)

"""Panels of curves side by side: predictions of the performance models, with available measurements."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from bench.ledger.row import Row
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Axes, Page, mark_powers, page, stroke, with_legend
from reports.figure import Figure

_ROW_IN = 1.75
_LEGEND_IN = 0.16
_ENTRY_IN, _CHARACTER_IN = 0.42, 0.055
"""Width of a legend entry without its label, and per character of it."""

Style = Mapping[str, Any]
"""Line properties in Matplotlib's terms."""

MEASURED: Style = {"color": "black", "marker": "o", "linestyle": "", "markersize": 4.5, "markerfacecolor": "white"}
"""Style of measurements without a curve of their own."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line or a set of points; curves with the same label share a legend entry in the style of the last."""

    label: str
    x: Iterable[float]
    y: Iterable[float]
    style: Style


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves on one pair of axes.

    Attributes
    ----------
    title
        Title, possibly empty.
    curves
        Curves, at least one.
    axes
        Labels, limits and scales, as ``Axes.set`` takes them. A linear vertical axis without limits begins at 0.
    """

    title: str
    curves: Sequence[Curve]
    axes: Style = field(default_factory=dict)


def draw_panels(
    figure: Figure,
    rows: Sequence[Row],
    *,
    panels: Callable[[], Sequence[Panel]],
    notes: Callable[[], Sequence[str]] = tuple,
    columns: int = 3,
) -> Page:
    """Draw panels row by row, with one legend above them; see ``Figure.draw``.

    A single column of panels is as wide as a column of a paper.

    Parameters
    ----------
    panels, notes
        Functions that return the panels and the notes below them.
    columns
        Largest number of panels side by side.
    """
    drawn, texts = panels(), notes()
    across = min(columns, len(drawn))
    width_in = COLUMN_IN if across == 1 else FULL_WIDTH_IN
    handles = {curve.label: curve.style for panel in drawn for curve in panel.curves}
    most = max(1, int(width_in / (_ENTRY_IN + _CHARACTER_IN * max(map(len, handles)))))
    lines = ceil(len(handles) / most)
    bands = ceil(len(drawn) / across)
    height_in = bands * _ROW_IN + lines * _LEGEND_IN
    sheet = page(width_in, height_in, texts)
    grid = sheet.subplots(bands, across, squeeze=False).ravel()
    for ax, panel in zip(grid, drawn, strict=False):
        for curve in panel.curves:
            ax.plot(list(curve.x), list(curve.y), **curve.style)
        ax.set_title(panel.title)
        if "ylim" not in panel.axes and panel.axes.get("yscale") != "log":
            ax.set_ylim(bottom=0.0)
        ax.set(**panel.axes)
        _label_logarithms(ax, panel)
        ax.grid()
    for ax in grid[len(drawn) :]:
        ax.remove()
    legend = [stroke(label, **style) for label, style in handles.items()]
    return with_legend(sheet, legend, ceil(len(handles) / lines))


def _label_logarithms(ax: Axes, panel: Panel) -> None:
    """Write plain numbers on logarithmic axes, at 1, 2 and 5 of each power of ten unless the panel names its ticks."""
    for letter, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        if panel.axes.get(f"{letter}scale") == "log":
            axis.minorticks_off()
            if f"{letter}ticks" not in panel.axes:
                mark_powers(axis, (1, 2, 5))

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
"""Heights of a row of panels and of a line of the legend, in inches."""

_ENTRY_IN, _CHARACTER_IN = 0.42, 0.055
"""Width of a legend entry without its label, and width of a character of the label, in inches."""

Style = Mapping[str, Any]
"""Properties of lines or axes in Matplotlib, by name."""

MEASURED: Style = {"color": "black", "marker": "o", "linestyle": "", "markersize": 4.5, "markerfacecolor": "white"}
"""Style of measurements that belong to no curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line or a set of points; curves with equal labels share a legend entry, in the style of the last curve."""

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
        Title; may be empty.
    curves
        Curves of the panel, at least one.
    axes
        Labels, limits and scales: keyword arguments of ``Axes.set``. A linear vertical axis without limits begins at 0.
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

    A single column of panels has the width of one column of a paper.

    Parameters
    ----------
    panels, notes
        Functions that return the panels and the notes below them.
    columns
        Largest number of panels side by side.
    """
    all_panels, note_texts = panels(), notes()
    panels_per_row = min(columns, len(all_panels))
    width_in = COLUMN_IN if panels_per_row == 1 else FULL_WIDTH_IN
    style_by_label = {curve.label: curve.style for panel in all_panels for curve in panel.curves}
    entries_per_line = max(1, int(width_in / (_ENTRY_IN + _CHARACTER_IN * max(map(len, style_by_label)))))
    legend_lines = ceil(len(style_by_label) / entries_per_line)
    row_count = ceil(len(all_panels) / panels_per_row)
    height_in = row_count * _ROW_IN + legend_lines * _LEGEND_IN
    sheet = page(width_in, height_in, note_texts)
    grid = sheet.subplots(row_count, panels_per_row, squeeze=False).ravel()
    for ax, panel in zip(grid, all_panels, strict=False):
        for curve in panel.curves:
            ax.plot(list(curve.x), list(curve.y), **curve.style)
        ax.set_title(panel.title)
        if "ylim" not in panel.axes and panel.axes.get("yscale") != "log":
            ax.set_ylim(bottom=0.0)
        ax.set(**panel.axes)
        _label_logarithms(ax, panel)
        ax.grid()
    for ax in grid[len(all_panels) :]:
        ax.remove()
    handles = [stroke(label, **style) for label, style in style_by_label.items()]
    return with_legend(sheet, handles, ceil(len(style_by_label) / legend_lines))


def _label_logarithms(ax: Axes, panel: Panel) -> None:
    """Write plain numbers on logarithmic axes.

    Ticks are at 1, 2 and 5 times each power of ten, unless the panel names its ticks.
    """
    for letter, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        if panel.axes.get(f"{letter}scale") == "log":
            axis.minorticks_off()
            if f"{letter}ticks" not in panel.axes:
                mark_powers(axis, (1, 2, 5))

"""Panels of curves side by side: predictions of the performance models, with available measurements."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.ledger.row import Row
from reports.figure import Figure
from reports.figure_style import COLUMN_IN, FULL_WIDTH_IN, note_height_in, page, save, stroke, write_note
from reports.palette import LineStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    x: "Iterable[float]"
    y: "Iterable[float]"
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
        Labels, limits and scales, as ``Axes.set`` takes them. An axis without limits begins at 0.
    """

    title: str
    curves: Sequence[Curve]
    axes: Style = field(default_factory=dict)


def line(look: LineStyle) -> Style:
    """Return the style of predictions: a line with marks."""
    return {"color": look.colour, "marker": look.marker, "linestyle": look.line}


def points(look: LineStyle) -> Style:
    """Return the style of measurements: hollow marks without a line."""
    return {"color": look.colour, "marker": look.marker, "linestyle": "", "markerfacecolor": "white"}


def panels_figure(
    panels: Callable[[], Sequence[Panel]],
    notes: Callable[[], Sequence[str]] = tuple,
    columns: int = 3,
    **about: Any,
) -> Figure:
    """Return a figure of panels without runs.

    Parameters
    ----------
    panels, notes
        The panels, and the notes below them.
    columns
        Number of panels side by side; a single one is as wide as a column of a paper.
    about
        Further attributes of ``Figure``; ``cost`` has a default.
    """

    def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
        return draw_panels(about["name"], panels(), folder, notes(), columns)

    return Figure(**{"cost": "no runs, a second", "needs": (), "draw": draw, **about})


def draw_panels(
    name: str, panels: Sequence[Panel], folder: Path, notes: Sequence[str] = (), columns: int = 3
) -> list[Path]:
    """Draw panels row by row into the files called ``name``, with one legend above them."""
    across = min(columns, len(panels))
    width_in = COLUMN_IN if across == 1 else FULL_WIDTH_IN
    handles = {curve.label: curve.style for panel in panels for curve in panel.curves}
    most = max(1, int(width_in / (_ENTRY_IN + _CHARACTER_IN * max(map(len, handles)))))
    lines = ceil(len(handles) / most)
    rows = ceil(len(panels) / across)
    height_in = rows * _ROW_IN + lines * _LEGEND_IN + note_height_in(notes, width_in)
    with page(width_in, height_in) as sheet:
        grid = sheet.subplots(rows, across, squeeze=False).ravel()
        for ax, panel in zip(grid, panels, strict=False):
            for curve in panel.curves:
                ax.plot(list(curve.x), list(curve.y), **curve.style)
            ax.set_title(panel.title)
            if "ylim" not in panel.axes and panel.axes.get("yscale") != "log":
                ax.set_ylim(bottom=0.0)
            ax.set(**panel.axes)
            _label_logarithms(ax, panel)
            ax.grid()
        for ax in grid[len(panels) :]:
            ax.remove()
        legend = [stroke(label, **style) for label, style in handles.items()]
        sheet.legend(handles=legend, loc="outside upper center", ncols=ceil(len(handles) / lines))
        write_note(sheet, notes)
        return save(sheet, name, folder)


def _label_logarithms(ax: "Axes", panel: Panel) -> None:
    """Write plain numbers on logarithmic axes, at 1, 2 and 5 of each power of ten unless the panel names its ticks."""
    from matplotlib.ticker import LogLocator, NullLocator

    for letter, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        if panel.axes.get(f"{letter}scale") == "log":
            axis.set_minor_locator(NullLocator())
            if f"{letter}ticks" not in panel.axes:
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_major_formatter("{x:,g}")

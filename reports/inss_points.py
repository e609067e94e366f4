"""Panels of InSS's Tables 3 and 4, one per row: observed, predicted by the paper, and predicted here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from instances.calibration.a100_inss import PublishedTime, relative_errors
from instances.catalogue import gpu_type
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, stroke, swatch, write_note
from reports.palette import DEEP_BLUE, ORANGE, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT_IN = 2.3
_NOTES = ["Hollow: pinned by the calibration of the catalogue entry a100-inss. Filled: held out."]


def draw_points(
    name: str, points: Sequence[PublishedTime], axis: str, place: Callable[[PublishedTime], float], folder: Path
) -> list[Path]:
    """Draw one table.

    Parameters
    ----------
    name
        Name of the files.
    points
        Points of the table.
    axis, place
        Label of the horizontal axis, and the position of a point on it.
    folder
        Folder of the files.
    """
    errors = relative_errors(gpu_type("a100-inss"), points)
    rows = list(dict.fromkeys(point.row for point in points))
    with page(FULL_WIDTH_IN, _HEIGHT_IN + 0.35 + note_height_in(_NOTES)) as sheet:
        panels = sheet.subplots(1, len(rows), squeeze=False).ravel()
        for panel, row in zip(panels, rows, strict=True):
            shown = [point for point in points if point.row == row]
            worst = max(abs(errors[point]) for point in shown)
            panel.set_title(f"{row}: at most {100.0 * worst:.1f} %")
            _draw_row(panel, shown, [errors[point] for point in shown], list(range(len(shown))))
            panel.set_xticks(range(len(shown)), [f"{place(point):g}" for point in shown])
            panel.set_xlabel(axis)
        panels[0].set_ylabel("GPU time (ms)")
        handles = [
            swatch("#D9D9D9", "observed (InSS)"),
            stroke("predicted by InSS", color=ORANGE, marker="_", linestyle="", markersize=9),
            stroke("predicted here", color=DEEP_BLUE, marker="o", linestyle=""),
        ]
        sheet.legend(handles=handles, loc="outside upper center", ncols=3)
        write_note(sheet, _NOTES)
        return save(sheet, name, folder)


def _draw_row(ax: "Axes", points: Sequence[PublishedTime], errors: Sequence[float], at: Sequence[int]) -> None:
    ax.bar(at, [point.observed_ms for point in points], color="#D9D9D9", edgecolor=QUIET, linewidth=0.4)
    ax.plot(at, [point.published_ms for point in points], "_", color=ORANGE, markersize=9)
    for x, point, error in zip(at, points, errors, strict=True):
        fill = "white" if point.pinned else DEEP_BLUE
        ax.plot(x, point.observed_ms * (1.0 + error), "o", color=DEEP_BLUE, markerfacecolor=fill, markersize=3.5)

"""Plots of predicted against observed latencies and of the distribution of their errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from instances.performance.validation import Errors
from reports.figure_style import FULL_WIDTH_IN, page, save
from reports.palette import DEEP_BLUE, QUIET, LineStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_HEIGHT_IN = 3.0


def draw_scatter(place: Path, title: str, errors: Errors) -> list[Path]:
    """Draw ``errors``: predicted against observed, and the distribution of relative errors.

    Parameters
    ----------
    place
        Path of the files, without suffix.
    title, errors
        Title of the figure, and the errors to draw.

    Raises
    ------
    InputError
        If the files cannot be written.
    """
    with page(FULL_WIDTH_IN, _HEIGHT_IN) as sheet:
        points, distribution = sheet.subplots(1, 2)
        scatter(points, errors)
        cumulate(distribution, {title: errors.relative}, {title: LineStyle(DEEP_BLUE, "", "-")})
        points.set_title(title)
        return save(sheet, place.name, place.parent)


def scatter(ax: "Axes", errors: Errors) -> None:
    """Draw predicted against observed times on logarithmic axes, with the line on which they are equal."""
    observed = np.array([sample.latency_ms for sample in errors.samples])
    ends = [min(observed.min(), errors.predicted_ms.min()), max(observed.max(), errors.predicted_ms.max())]
    ax.plot(ends, ends, color=QUIET, linewidth=0.6)
    ax.plot(observed, errors.predicted_ms, ".", color=DEEP_BLUE, markersize=2.0, alpha=0.6)
    ax.set(xscale="log", yscale="log", xlabel="Observed latency (ms)", ylabel="Predicted latency (ms)")


def cumulate(ax: "Axes", errors: Mapping[str, NDArray[np.float64]], looks: Mapping[str, LineStyle]) -> None:
    """Draw the cumulative distribution of absolute relative errors, one line per label."""
    for label, values in errors.items():
        ordered = np.sort(np.abs(values))
        look = looks[label]
        part = np.arange(1, len(ordered) + 1) / len(ordered)
        ax.plot(100.0 * ordered, part, color=look.colour, linestyle=look.line, label=label)
    ax.set(xlabel="Relative error (%)", ylabel="Part of the samples", ylim=(0.0, 1.0))
    ax.set_xlim(left=0.0)
    ax.grid()

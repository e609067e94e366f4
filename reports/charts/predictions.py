"""Predicted beside observed latencies: bars with marks, scatter plots, and distributions of errors."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import Row
from instances.calibration.a100_inss import PublishedTime, relative_errors
from instances.catalogue import gpu_type
from instances.measurements import Configuration, PairSample
from instances.performance.validation import Errors, latencies_ms
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, save, stroke, styled, swatch, with_legend
from reports.charts.palette import DEEP_BLUE, OBSERVED, ORANGE, PERFORMANCE_LOOKS, QUIET, LineStyle
from reports.figure import Figure
from reports.measured import measured_pairs
from reports.restated import restated_note, restated_pairs

DRAWN = ("igniter", "gpulet", "hybrid")
"""Performance models whose predictions are drawn."""

_HEIGHT_IN, _TABLE_HEIGHT_IN, _SCATTER_HEIGHT_IN = 2.5, 2.65, 3.0


def draw_both(
    figure: Figure,
    rows: Sequence[Row],
    *,
    models: tuple[str, str],
    settings: Mapping[str, tuple[tuple[int, float], tuple[int, float]]],
    xlabel: str,
) -> Page:
    """Draw the latencies of two models on one V100, a panel for each model; see ``Figure.draw``.

    Parameters
    ----------
    models
        The two models, which run beside each other.
    settings
        Batch and share in percent of the panel's model, and those of the other model, by label.
    xlabel
        Label of the quantity in which the settings differ.
    """
    measured = measured_pairs("v100")
    samples = measured or restated_pairs()
    notes = [] if measured else [f"{restated_note('v100')} Settings without a bar are not restated."]
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    for ax, model, neighbour in zip(sheet.subplots(1, 2), models, reversed(models), strict=True):
        groups = [
            (Configuration(model, *model_setting), Configuration(neighbour, *neighbour_setting))
            for model_setting, neighbour_setting in settings.values()
        ]
        largest_errors = draw_colocated(ax, groups, list(settings), samples)
        errors = ", ".join(f"{predictor} {100.0 * error:.1f}" for predictor, error in largest_errors.items())
        title = f"{model} beside {neighbour}" + (f"\nlargest error (%): {errors}" if errors else "")
        ax.set(title=title, xlabel=xlabel, ylabel="Latency (ms)")
    handles = [swatch(OBSERVED, "measured")]
    handles += [stroke(name, **{**PERFORMANCE_LOOKS[name].marked, "linestyle": ""}) for name in DRAWN]
    return with_legend(sheet, handles)


def draw_colocated(
    ax: Axes, groups: Sequence[Sequence[Configuration]], labels: Sequence[str], samples: Sequence[PairSample]
) -> dict[str, float]:
    """Draw latencies of each group's first configuration, and return the largest relative error of each model.

    The result has an entry only for models with a prediction of a measured group.

    Parameters
    ----------
    ax
        Axes to draw on.
    groups, labels
        Groups of configurations on one V100, and the label of each group.
    samples
        Measured pairs; a group that is a measured pair has a bar.
    """
    observed = {(sample.own, sample.other): sample for sample in samples}
    sample_of_group = [observed.get((group[0], group[1])) if len(group) == 2 else None for group in groups]
    positions = np.arange(len(groups))
    for x, sample in zip(positions, sample_of_group, strict=True):
        if sample is not None:
            ax.bar(x, sample.latency_ms, yerr=np.nan_to_num(sample.std_ms), color=OBSERVED, ecolor="black", capsize=1.5)
    largest_errors = {}
    for number, name in enumerate(DRAWN):
        look = PERFORMANCE_LOOKS[name]
        predicted_latencies_ms = np.array([times[0] for times in latencies_ms(gpu_type("v100"), name, groups)])
        ax.plot(
            positions + 0.15 * (number - 1),  # the marks of the three models stand side by side
            predicted_latencies_ms,
            look.marker,
            color=look.colour,
            markersize=3.5,
            label=name,
        )
        errors = [
            abs(predicted_ms / sample.latency_ms - 1.0)
            for predicted_ms, sample in zip(predicted_latencies_ms, sample_of_group, strict=True)
            if sample is not None
        ]
        if errors:
            largest_errors[name] = max(errors)
    ax.set_xticks(positions, labels)
    ax.set_ylim(bottom=0.0)
    return largest_errors


_TABLE_NOTES = ["Hollow: pinned by the calibration of the catalogue entry a100-inss. Filled: held out."]


def draw_points(
    figure: Figure,
    rows: Sequence[Row],
    *,
    points: Sequence[PublishedTime],
    x_label: str,
    x_value: Callable[[PublishedTime], float],
) -> Page:
    """Draw the points of one of InSS's tables, a panel for each row of the table; see ``Figure.draw``.

    Parameters
    ----------
    x_label, x_value
        Label of the horizontal axis, and the position of a point on it.
    """
    errors = relative_errors(gpu_type("a100-inss"), points)
    table_rows = list(dict.fromkeys(point.row for point in points))
    sheet = page(FULL_WIDTH_IN, _TABLE_HEIGHT_IN, _TABLE_NOTES)
    panels = sheet.subplots(1, len(table_rows), squeeze=False).ravel()
    for panel, row in zip(panels, table_rows, strict=True):
        shown = [point for point in points if point.row == row]
        worst = max(abs(errors[point]) for point in shown)
        panel.set_title(f"{row}: at most {100.0 * worst:.1f} %")
        _draw_table_row(panel, shown, errors)
        panel.set_xticks(range(len(shown)), [f"{x_value(point):g}" for point in shown])
        panel.set_xlabel(x_label)
    panels[0].set_ylabel("Inference time (ms)")
    handles = [
        swatch(OBSERVED, "observed (InSS)"),
        stroke("predicted by InSS", color=ORANGE, marker="_", linestyle="", markersize=9),
        stroke("predicted here", color=DEEP_BLUE, marker="o", linestyle=""),
    ]
    return with_legend(sheet, handles, 3)


def _draw_table_row(ax: Axes, points: Sequence[PublishedTime], errors: Mapping[PublishedTime, float]) -> None:
    positions = range(len(points))
    ax.bar(positions, [point.observed_ms for point in points], color=OBSERVED, edgecolor=QUIET, linewidth=0.4)
    ax.plot(positions, [point.published_ms for point in points], "_", color=ORANGE, markersize=9)
    for x, point in enumerate(points):
        fill = "white" if point.pinned else DEEP_BLUE
        predicted_ms = point.observed_ms * (1.0 + errors[point])
        ax.plot(x, predicted_ms, "o", color=DEEP_BLUE, markerfacecolor=fill, markersize=3.5)


def draw_scatter(file_stem: Path, title: str, errors: Errors) -> list[Path]:
    """Draw the errors of a model: predicted against observed latencies, and the distribution of relative errors.

    ``file_stem`` is the path of the files without suffix.

    Raises
    ------
    InputError
        If the files cannot be written.
    """
    with styled():
        sheet = page(FULL_WIDTH_IN, _SCATTER_HEIGHT_IN)
        points, distribution = sheet.subplots(1, 2)
        scatter(points, errors)
        cumulate(distribution, {title: errors.relative}, {title: LineStyle(DEEP_BLUE, "", "-")})
        points.set_title(title)
        return save(sheet, file_stem.name, file_stem.parent)


def scatter(ax: Axes, errors: Errors) -> None:
    """Draw predicted against observed latencies on logarithmic axes, with the line of equal latencies."""
    observed = np.array([sample.latency_ms for sample in errors.samples])
    ends = [min(observed.min(), errors.predicted_ms.min()), max(observed.max(), errors.predicted_ms.max())]
    ax.plot(ends, ends, color=QUIET, linewidth=0.6)
    ax.plot(observed, errors.predicted_ms, ".", color=DEEP_BLUE, markersize=2.0, alpha=0.6)
    ax.set(xscale="log", yscale="log", xlabel="Observed latency (ms)", ylabel="Predicted latency (ms)")


def cumulate(ax: Axes, errors: Mapping[str, NDArray[np.float64]], looks: Mapping[str, LineStyle]) -> None:
    """Draw the cumulative distribution of absolute relative errors, a line for each label."""
    for label, values in errors.items():
        ordered = np.sort(np.abs(values))
        look = looks[label]
        fractions = np.arange(1, len(ordered) + 1) / len(ordered)
        ax.plot(100.0 * ordered, fractions, color=look.colour, linestyle=look.line, label=label)
    ax.set(xlabel="Relative error (%)", ylabel="Part of the samples", ylim=(0.0, 1.0))
    ax.set_xlim(left=0.0)
    ax.grid()

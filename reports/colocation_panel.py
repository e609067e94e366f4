"""Panels of predicted latencies of co-located models, with measured ones where available."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from instances.catalogue import gpu_type
from instances.measurements import Configuration, PairSample
from instances.performance.prediction import latencies_ms
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, write_note
from reports.measured import measured_pairs, missing_note
from reports.palette import performance_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = ("igniter", "gpulet", "hybrid")
"""Performance models."""

_HEIGHT_IN = 2.5


def draw_both(
    name: str,
    models: tuple[str, str],
    settings: Mapping[str, tuple[tuple[int, float], tuple[int, float]]],
    xlabel: str,
    folder: Path,
) -> list[Path]:
    """Draw the figure called ``name`` into ``folder``: two models on one V100, a panel for the latency of each.

    Parameters
    ----------
    name
        Name of the figure and of its files.
    models
        The two models, each beside the other.
    settings
        Batch and share in percent of the panel's model and of the other, by label.
    xlabel
        Quantity in which the settings differ.
    folder
        Folder of the files.
    """
    samples, notes = measured_pairs("v100"), missing_note("v100")
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        for ax, own, other in zip(sheet.subplots(1, 2), models, reversed(models), strict=True):
            groups = [(Configuration(own, *mine), Configuration(other, *theirs)) for mine, theirs in settings.values()]
            largest = draw_colocated(ax, groups, list(settings), samples)
            ax.set(title=titled(f"{own} beside {other}", largest), xlabel=xlabel, ylabel="Latency (ms)")
            ax.legend()
        write_note(sheet, notes)
        return save(sheet, name, folder)


def draw_colocated(
    ax: "Axes", groups: Sequence[Sequence[Configuration]], labels: Sequence[str], samples: Sequence[PairSample]
) -> dict[str, float]:
    """Draw latencies of each group's first configuration; return the largest relative error per model, if measured.

    Parameters
    ----------
    ax
        Axes to draw on.
    groups
        Configurations on one V100 together; one bar per group.
    labels
        Labels of the groups.
    samples
        Measured pairs; those of the groups are drawn.
    """
    observed = {(s.own, s.other): s for s in samples}
    found = [observed.get((group[0], group[1])) if len(group) == 2 else None for group in groups]
    at = np.arange(len(groups))
    for x, sample in zip(at, found, strict=True):
        if sample is not None:
            ax.bar(
                x, sample.latency_ms, yerr=np.nan_to_num(sample.std_ms), color="#D9D9D9", ecolor="black", capsize=1.5
            )
    largest = {}
    for number, name in enumerate(DRAWN):
        look = performance_look(name)
        predicted = np.array([times[0] for times in latencies_ms(gpu_type("v100"), name, groups)])
        ax.plot(at + 0.15 * (number - 1), predicted, look.marker, color=look.colour, markersize=3.5, label=name)
        errors = [abs(p / s.latency_ms - 1.0) for p, s in zip(predicted, found, strict=True) if s is not None]
        if errors:
            largest[name] = max(errors)
    ax.set_xticks(at, labels)
    ax.set_ylim(bottom=0.0)
    return largest


def titled(name: str, largest: Mapping[str, float]) -> str:
    """Return a panel's title with the largest errors below it."""
    errors = ", ".join(f"{model} {100.0 * error:.1f}" for model, error in largest.items())
    return f"{name}\nlargest error (%): {errors}" if errors else name

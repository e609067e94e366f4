"""Training curves of the shipped agents: scalars episode by episode."""

import csv
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from instances.arrays import Floats
from reports.figure import Figure
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, write_note
from reports.inss_baselines import TRAININGS
from reports.palette import pale, scheduler_look
from reports.statistics.student_t import half_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FAMILIES = {"ts-4gpu": "everything is served: capacity", "ts-4gpu-goodput": "requests are turned away: goodput"}
"""Policies with several trainings, and the problem they are trained for."""

_ROW_IN = 1.5
_COLOUR = scheduler_look("ts").colour
_NOTE = (
    f"Mean of {len(TRAININGS)} trainings (line) and its 95 % confidence interval by Student's t (band); each training "
    "(thin lines)."
)


def curves(family: str, scalar: str) -> Floats:
    """Return a scalar of the trainings of one of ``FAMILIES``, shape (trainings, episodes)."""
    found = []
    for training in TRAININGS:
        text = (files("rl") / "policies" / f"{family}-s{training}.csv").read_text()
        found.append([float(row[scalar]) for row in csv.DictReader(text.splitlines())])
    return np.array(found)


def draw_curves(figure: Figure, scalars: Mapping[str, str], folder: Path) -> list[Path]:
    """Draw scalars, by name with the label of their axis, below each other; a column for each of ``FAMILIES``."""
    with page(FULL_WIDTH_IN, 0.6 + _ROW_IN * len(scalars) + note_height_in([_NOTE])) as sheet:
        grid = sheet.subplots(len(scalars), len(FAMILIES), sharex="col", squeeze=False)
        for column, (family, trained_for) in zip(grid.T, FAMILIES.items(), strict=True):
            column[0].set_title(trained_for)
            column[-1].set_xlabel("Episode")
            for ax, (scalar, label) in zip(column, scalars.items(), strict=True):
                _draw(ax, curves(family, scalar))
                ax.set(ylabel=label)
        write_note(sheet, [_NOTE])
        return save(sheet, figure.name, folder)


def _draw(ax: "Axes", found: Floats) -> None:
    episodes = np.arange(1, found.shape[1] + 1)
    mean, half = found.mean(axis=0), half_width(found)
    for one in found:
        ax.plot(episodes, one, color=_COLOUR, linewidth=0.4, marker="")
    ax.fill_between(episodes, mean - half, mean + half, color=pale(_COLOUR), linewidth=0.0)
    ax.plot(episodes, mean, color="black", linewidth=0.9, marker="")
    ax.set_xlim(1, len(episodes))
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.grid()

"""Learning curve of one training, in the folder of the trained policy."""

import csv
from pathlib import Path

from reports.charts.page import FULL_WIDTH_IN, page, save, styled

SCALARS = {"reward": "Reward of a step", "late_pct": "Late requests, %", "throughput_rps": "Throughput, req/s"}
"""Scalars that every training writes, and the labels of their axes."""

_ROW_IN = 1.5
"""Height of the plot of one scalar, in inches."""


def draw_learning_curve(folder: Path) -> Path:
    """Draw ``scalars.csv`` of a training's folder, episode by episode, as ``curve.png`` in the same folder.

    Raises
    ------
    InputError
        If the picture cannot be written.
    """
    with (folder / "scalars.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    episodes = [int(row["episode"]) for row in rows]
    with styled():
        sheet = page(FULL_WIDTH_IN, 0.4 + _ROW_IN * len(SCALARS))
        axes = sheet.subplots(len(SCALARS), 1, sharex=True)
        for ax, (scalar, label) in zip(axes, SCALARS.items(), strict=True):
            ax.plot(episodes, [float(row[scalar]) for row in rows], marker="" if len(rows) > 1 else ".")
            ax.set(ylabel=label)
            ax.yaxis.set_major_formatter("{x:,g}")
            ax.grid()
        axes[-1].set_xlabel("Episode (with exploration)")
        (file_written,) = save(sheet, "curve", folder, ["png"])
    return file_written

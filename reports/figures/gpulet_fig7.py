"""gpulet ATC'22, Fig. 7, and arXiv'21, Fig. 6: slowdown of inference by co-location."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np

from bench.ledger.row import Row
from instances.catalogue import gpu_type
from instances.measurements import Configuration, PairSample
from instances.performance.prediction import latencies_ms
from reports.figure import Figure
from reports.figure_style import COLUMN_IN, note_height_in, page, save, write_note
from reports.measured import measured_pairs, missing_note
from reports.palette import QUIET, LineStyle, performance_look
from reports.scatter import cumulate

PAPER = (18.0, 0.9)
"""90th percentile of the overhead over the scenarios, in percent (Sec. 3.4)."""

MODELS = ("googlenet", "lenet", "resnet50", "ssd-mobilenet", "vgg16")
BATCHES = (2, 4, 8, 16, 32)
SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0)
_HEIGHT_IN = 2.6


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the figure of the ATC'22 paper into ``folder``; it needs no runs."""
    return _draw(FIGURE.name, folder)


def draw_arxiv(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the same for the arXiv version."""
    return _draw(ARXIV.name, folder)


def _draw(name: str, folder: Path) -> list[Path]:
    model = "gpulet's model, RTX 2080 Ti"
    lines, looks = {model: predicted_overheads()}, {model: performance_look("gpulet")}
    for gpu, line in (("v100", "-"), ("a100", "--")):
        if samples := measured_pairs(gpu):
            label = f"measured, {gpu.upper()}"
            lines[label], looks[label] = measured_overheads(gpu, samples), LineStyle(QUIET, "", line)
    notes = missing_note("v100", "a100")
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        cumulate(ax, lines, looks)
        ax.plot(*PAPER, "k*", label="the paper")
        ax.set(xlabel="Slower than alone (%)", xlim=(0.0, 150.0))
        ax.legend(loc="lower right")
        write_note(sheet, notes)
        return save(sheet, name, folder)


def predicted_overheads() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the overheads by gpulet's model for 10 pairs of models, 25 of batches and 5 layouts (Sec. 3.4)."""
    gpu = gpu_type("rtx2080ti")
    groups = [
        (Configuration(a, b, share), Configuration(c, d, 100.0 - share))
        for (a, c), b, d, share in product(combinations(MODELS, 2), BATCHES, BATCHES, SHARES_PCT)
    ]
    alone = latencies_ms(gpu, "gpulet", [[at] for group in groups for at in group])
    together = latencies_ms(gpu, "gpulet", groups)
    return np.concatenate(together) / np.concatenate(alone) - 1.0


def measured_overheads(gpu: str, samples: Sequence[PairSample]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the overheads of measured pairs over the catalogue's solo times."""
    alone = np.concatenate(latencies_ms(gpu_type(gpu), "hybrid", [[sample.own] for sample in samples]))
    return np.maximum(0.0, np.array([sample.latency_ms for sample in samples]) / alone - 1.0)


FIGURE = Figure(
    name="gpulet-fig7",
    title="Slowdown of inference by co-location",
    paper="gpulet ATC'22, Fig. 7",
    shows="In 90 % of the scenarios the overhead is below 18 %, with a long tail; measured on a GeForce RTX 2080 Ti.",
    look_for="Compare the line of gpulet's model, with its published constants, with the star. Other GPUs differ "
    "widely from it: on the A100 small batches are bound by kernel launches and slow down by half and more.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)
ARXIV = replace(FIGURE, name="gpulet-arxiv-fig6", paper="gpulet arXiv'21, Fig. 6", draw=draw_arxiv)
"""The same experiment."""

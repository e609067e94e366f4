"""gpulet ATC'22, Fig. 10, and arXiv'21, Fig. 9: errors of gpulet's interference model and of the other models."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.ledger.row import Row
from instances.catalogue import gpu_type
from instances.performance import performance_model_names
from instances.performance.validation import validate
from reports.figure import Figure
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, write_note
from reports.measured import measured_pairs, missing_note, nothing_measured
from reports.palette import performance_look
from reports.scatter import cumulate

PAPER_PCT = ((10.26, 0.9), (13.98, 0.95))
"""90th and 95th percentile of the errors on the paper's validation set (Sec. 4.4)."""

GPUS = ("v100", "a100")
_HEIGHT_IN = 2.8


def _draw(name: str, folder: Path) -> list[Path]:
    """Draw the distributions on each GPU with measurements into ``folder``.

    Raises
    ------
    NothingToDrawError
        If there are no measurements.
    """
    measured = {gpu: samples for gpu in GPUS if (samples := measured_pairs(gpu))}
    if not measured:
        raise nothing_measured(name, GPUS)
    notes = missing_note(*GPUS)
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        panels = sheet.subplots(1, len(measured), sharey=True, squeeze=False).ravel()
        for ax, (gpu, samples) in zip(panels, measured.items(), strict=True):
            lines, looks = {}, {}
            for model in performance_model_names():
                errors = validate(gpu_type(gpu), model, samples)
                label = f"{model}: P95 {100.0 * errors.summary['p95']:.1f} %"
                lines[label], looks[label] = np.abs(errors.relative), performance_look(model)
            cumulate(ax, lines, looks)
            ax.plot(*zip(*PAPER_PCT, strict=True), "k*", label="the paper's model on its GPU")
            ax.set(title=f"{gpu.upper()}, {len(samples)} samples", xlim=(0.0, 60.0 if gpu == "a100" else 20.0))
            ax.legend(loc="lower right")
        write_note(sheet, notes)
        return save(sheet, name, folder)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the figure of the ATC'22 paper into ``folder``; it needs no runs."""
    return _draw(FIGURE.name, folder)


def draw_arxiv(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the same for the arXiv version."""
    return _draw(ARXIV.name, folder)


FIGURE = Figure(
    name="gpulet-fig10",
    title="Errors of the performance models on measured pairs",
    paper="gpulet ATC'22, Fig. 10",
    shows="The linear pair model predicts 90 % of the cases within 10.26 % and 95 % within 13.98 %.",
    look_for="The same model fitted to other GPUs: within the stars on the V100, far outside them on the A100, where "
    "the hybrid model is better. Errors are in-sample: the models were fitted to these pairs.",
    cost="no runs, a few seconds; published measurements, in the folder that GPUSHARE_MEASUREMENTS names",
    needs=(),
    draw=draw,
)
ARXIV = replace(FIGURE, name="gpulet-arxiv-fig9", paper="gpulet arXiv'21, Fig. 9", draw=draw_arxiv)
"""The same experiment."""

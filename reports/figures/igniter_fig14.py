"""iGniter, Fig. 14: the plans for the twelve workloads side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.canvas import FULL_WIDTH_IN, note_height_in, page, save, write_note
from reports.figure import Figure, Need
from reports.labels import fit_labels
from reports.placement import gpus, pieces
from reports.plan_bars import BAR_IN, HEADER_IN, draw_plan, plan_legend
from reports.selection import instances_of, plans_and_notes

if TYPE_CHECKING:
    from bench.ledger.row import Row

NEEDS = (Need("igniter-12", ("igniter", "ffd+", "ffd++", "cpsat")),)

_ACROSS = 2
_MARGINS_IN = 0.58


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the plans in ``rows`` into ``folder``; see ``Figure.draw``."""
    plans, notes = plans_and_notes(FIGURE.name, rows, NEEDS)
    instance = instances_of(NEEDS)[NEEDS[0].instances]
    placed = [(row, pieces(row, instance)) for row in plans.values()]

    bands = [placed[start : start + _ACROSS] for start in range(0, len(placed), _ACROSS)]
    bars = [max(1, *(len(gpus(row)) for row, _ in band)) for band in bands] or [1]
    height_in = sum(bars) * BAR_IN + len(bars) * HEADER_IN + _MARGINS_IN + note_height_in(notes)
    with page(FULL_WIDTH_IN, height_in) as sheet:
        axes = sheet.subplots(len(bars), _ACROSS, sharex=True, squeeze=False, gridspec_kw={"height_ratios": bars})
        for ax, bar_count in zip(axes.flat, (count for count in bars for _ in range(_ACROSS)), strict=True):
            ax.set(xlim=(0.0, 100.0), ylim=(bar_count - 0.5, -0.5))
        labels = [
            label for ax, (row, found) in zip(axes.flat, placed, strict=False) for label in draw_plan(ax, row, found)
        ]
        for ax in axes.flat[max(1, len(placed)) :]:
            ax.remove()
        for ax in axes.flat[max(0, len(placed) - _ACROSS) : max(1, len(placed))]:  # the lowest of each column
            ax.set_xlabel("Share of the GPU (%)")
            ax.tick_params(axis="x", labelbottom=True)
        if not placed:
            axes[0, 0].set_yticks([])
            axes[0, 0].text(50.0, 0.0, "no plan to draw", ha="center", va="center")
        plan_legend(sheet, instance, [piece for _, found in placed for piece in found])
        write_note(sheet, notes)
        fit_labels(sheet, labels)
        return save(sheet, FIGURE.name, folder)


FIGURE = Figure(
    name="igniter-fig14",
    title="Plans for iGniter's twelve workloads",
    paper="iGniter, Fig. 14",
    shows="iGniter serves the twelve workloads on 6 V100s ($18.36/h) without an SLO violation. FFD+ takes 5 "
    "GPUs and violates 10 SLOs, gpu-lets+ takes 8 and violates 3, GSLICE+ takes 6 and violates 3.",
    look_for="iGniter's plan is the published one: 6 GPUs, the same shares and batches. FFD+ saves a GPU and pays "
    "with 9 violations; the paper measured 10, the judge counts what the model predicts. FFD++ needs 6 "
    "GPUs as well, and so does the exact cpsat.",
    cost="4 runs: a few seconds, and at most the time limit for cpsat",
    needs=NEEDS,
    draw=draw,
)

"""iGniter, Fig. 20: iGniter's plan for the twelve workloads on T4s."""

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

NEEDS = (Need("igniter-12-t4", ("igniter",)),)

_MARGINS_IN = 0.58


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw iGniter's plan in ``rows`` into ``folder``; see ``Figure.draw``."""
    plans, notes = plans_and_notes(FIGURE.name, [row for row in rows if row.scheduler == "igniter"], NEEDS)
    instance = instances_of(NEEDS)[NEEDS[0].instances]
    bars = max([1, *(len(gpus(row)) for row in plans.values())])
    with page(FULL_WIDTH_IN, bars * BAR_IN + HEADER_IN + _MARGINS_IN + note_height_in(notes)) as sheet:
        ax = sheet.subplots()
        ax.set(xlim=(0.0, 100.0), ylim=(bars - 0.5, -0.5), xlabel="Share of the GPU (%)")
        found = [piece for row in plans.values() for piece in pieces(row, instance)]
        labels = [label for row in plans.values() for label in draw_plan(ax, row, found)]
        if not plans:
            ax.set_yticks([])
            ax.text(50.0, 0.0, "no plan to draw", ha="center", va="center")
        plan_legend(sheet, instance, found)
        write_note(sheet, notes)
        fit_labels(sheet, labels)
        return save(sheet, FIGURE.name, folder)


FIGURE = Figure(
    name="igniter-fig20",
    title="iGniter's plan for its twelve workloads on T4s",
    paper="iGniter, Fig. 20",
    shows="15 T4s ($7.89/h) serve what takes 6 V100s ($18.36/h); W7, W8, W10 and W12 take two or more GPUs each.",
    look_for="The same number of T4s at the same price, W7, W8 and W10 on two GPUs each and W12 on three; W5 takes two "
    "as well. The T4's coefficients are calibrated to this number: it is no evidence for it.",
    cost="1 run, a second",
    needs=NEEDS,
    draw=draw,
)

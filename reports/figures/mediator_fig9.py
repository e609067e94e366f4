"""MediatorDNN, Fig. 9: demand of a group's jobs over time, and how often it exceeds the GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.judging.colocation import demand_over_time, over_capacity_pct
from bench.ledger.row import Row
from instances import PlacedGpu
from instances.files import plan_from_json
from instances.view import View
from reports.figure import Figure, Need
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, stroke, write_note
from reports.palette import ALARM, QUIET, scheduler_look
from reports.selection import instances_of, plans_and_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = (Need("mediator-40-s0", ("mediator", "horus", "bin-packing")),)

_PANEL_IN = 1.25
_MARGINS_IN = 0.6


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw a group of each plan in ``rows`` into ``folder``; see ``Figure.draw``."""
    plans, notes = plans_and_notes(FIGURE.name, rows, NEEDS)
    with page(FULL_WIDTH_IN, _PANEL_IN * len(plans) + _MARGINS_IN + note_height_in(notes)) as sheet:
        axes = sheet.subplots(len(plans), 1, sharex=True, sharey=True, squeeze=False).ravel()
        for ax, (scheduler, row) in zip(axes, plans.items(), strict=True):
            _draw_group(ax, scheduler, row)
        for ax in axes:
            ax.set_ylabel("Demand (% of a GPU)")
            ax.axhline(100.0, color=ALARM, linewidth=0.9, linestyle="--")
        axes[0].set_ylim(bottom=0.0)  # of all panels, when they are filled
        axes[-1].set_xlabel("Time (s)")
        handles = [stroke(f"all jobs, {scheduler}", color=scheduler_look(scheduler).colour) for scheduler in plans]
        handles += [stroke("each job", color=QUIET, linewidth=0.5), stroke("capacity", color=ALARM, linestyle="--")]
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def busiest_group(row: Row) -> tuple[int, PlacedGpu, NDArray[np.float64]]:
    """Return the GPU of a row's plan that is over capacity longest (the first of several): position, GPU and demand.

    The demand is that of ``bench.judging.colocation.demand_over_time``.
    """
    instance = instances_of(NEEDS)[row.instance]
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    groups = [
        (position, gpu, demand_over_time(gpu, views[gpu.type]))
        for position, gpu in enumerate(plan_from_json(row.plan).gpus)
    ]
    return max(groups, key=lambda group: over_capacity_pct(group[2]))


def _draw_group(ax: "Axes", scheduler: str, row: Row) -> None:
    position, gpu, demand = busiest_group(row)
    over_pct = over_capacity_pct(demand)
    for job in demand:
        ax.plot(100.0 * job, color=QUIET, linewidth=0.4)
    ax.plot(100.0 * demand.sum(axis=0), color=scheduler_look(scheduler).colour, linewidth=0.9)
    ax.set_title(f"{scheduler}: GPU {position + 1}, {len(gpu.gpulets)} jobs, over capacity {over_pct:.1f} %")
    ax.margins(x=0.0)


FIGURE = Figure(
    name="mediator-fig9",
    title="Demand of a group of jobs over time",
    paper="MediatorDNN, Fig. 9",
    shows="The demand of a MediatorDNN group exceeds the GPU's capacity less often than that of a Horus or "
    "bin-packing group.",
    look_for="The group of each plan that is over capacity longest. The line of mediator is below the capacity most "
    "of the time. Those of horus and bin-packing, which fill GPUs to the mean, cross it often.",
    cost="3 of the runs of mediator-fig8",
    needs=NEEDS,
    draw=draw,
)

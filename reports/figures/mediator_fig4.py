"""MediatorDNN, Fig. 4: the portfolio effect on four jobs on two GPUs."""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.ledger.row import Row
from heuristics.bin_packing import BinPacking
from heuristics.mediator import Mediator
from heuristics.utilisation import Utilisation
from reports.figure import Figure
from reports.figure_style import FULL_WIDTH_IN, page, save, swatch
from reports.palette import scheduler_look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MEAN_PCT = (30.0, 30.0, 30.0, 30.0)
DEVIATION_PCT = (20.0, 2.0, 20.0, 2.0)

_HEIGHT_IN = 2.2
_DEVIATION_COLOUR = "#D9D9D9"


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw both co-locations into ``folder``; they need no runs."""
    grouped = colocations()
    with page(FULL_WIDTH_IN, _HEIGHT_IN) as sheet:
        panels = sheet.subplots(1, 2, sharey=True)
        for ax, (scheduler, groups) in zip(panels, grouped.items(), strict=True):
            _draw_groups(ax, groups, scheduler_look(scheduler).colour)
            total_pct = sum(deviation_pct(group) for group in groups)
            ax.set_title(f"{scheduler}: deviations of both GPUs together {total_pct:.1f} %")
        panels[0].set_ylabel("Utilisation (%)")
        handles = [swatch(scheduler_look(scheduler).colour, f"mean utilisation, {scheduler}") for scheduler in grouped]
        handles.append(swatch(_DEVIATION_COLOUR, "standard deviation of the portfolio"))
        sheet.legend(handles=handles, loc="outside upper center", ncols=3)
        return save(sheet, FIGURE.name, folder)


def colocations() -> dict[str, list[list[int]]]:
    """Return each scheduler's pairs of the four jobs, as positions."""
    jobs = Utilisation(np.array(MEAN_PCT) / 100.0, np.array(DEVIATION_PCT) / 100.0, np.ones((4, 1)))
    return {rule.name: rule.groups(jobs, lambda group: len(group) <= 2) for rule in (BinPacking(), Mediator())}


def deviation_pct(group: Sequence[int]) -> float:
    """Return the standard deviation of the joint utilisation of a group's jobs (equation 3)."""
    return sqrt(sum(DEVIATION_PCT[job] ** 2 for job in group))


def _draw_groups(ax: "Axes", groups: Sequence[Sequence[int]], colour: str) -> None:
    for x, group in enumerate(groups):
        base_pct = 0.0
        for job in group:
            ax.bar(x, MEAN_PCT[job], 0.6, bottom=base_pct, color=colour, edgecolor="white")
            label = f"job {job + 1}: {MEAN_PCT[job]:g} ± {DEVIATION_PCT[job]:g}"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            ax.text(x, base_pct + MEAN_PCT[job] / 2.0, label, ha="center", va="center", bbox=box)
            base_pct += MEAN_PCT[job]
        spread_pct = deviation_pct(group)
        ax.bar(x, spread_pct, 0.6, bottom=base_pct, color=_DEVIATION_COLOUR, edgecolor="white")
        ax.text(x, base_pct + spread_pct, f"{spread_pct:.1f}", ha="center", va="bottom")
    ax.set(ylim=(0.0, 105.0), xlim=(-0.6, len(groups) - 0.4))
    ax.set_xticks(range(len(groups)), [f"GPU {x + 1}" for x in range(len(groups))])
    ax.tick_params(axis="x", length=0)


FIGURE = Figure(
    name="mediator-fig4",
    title="The portfolio effect on four jobs in pairs",
    paper="MediatorDNN, Fig. 4",
    shows="Four jobs use 30 % each. Two of them vary by 20 %, two by 2 %. With one of each kind per GPU the "
    "deviations add up to 40 %; with equal kinds together, to 31 %.",
    look_for="The schedulers themselves give the same 40 and 31: bin-packing ignores deviations and takes the jobs in "
    "their order; mediator groups equal kinds.",
    cost="no runs, a second",
    needs=(),
    draw=draw,
)

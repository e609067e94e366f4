"""InSS, Fig. 10: throughput of ten models on four GPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from reports.figure import Figure
from reports.inss_baselines import compared, needs_of
from reports.requests import SERVED
from reports.scheduler_bars import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = compared("4gpu")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, SERVED, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")


FIGURE = Figure(
    name="inss-fig10",
    title="Throughput of ten models on four GPUs, simulated and planned",
    paper="InSS, Fig. 10",
    shows="InSS serves 52.8 % more than gpulet (which serves only eight of the ten models), 26.4 % more than GSLICE "
    "and 86.1 % more than iGniter (which uses three of the four GPUs).",
    look_for="The planned throughput of `ts` over five trainings is half as much again as each baseline's. Over "
    "gpulet it is the paper's result, although gpulet serves all ten models here. The requests served in time do not "
    "separate the schedulers (19 of 20 by the worst): the rates are ours, and no more requests arrive. The difference "
    "is the objective, the possible throughput beyond these requests, which the baselines do not pursue. Local "
    "search, whose plan is optimal, gets a fifth more out of four GPUs than `ts`.",
    cost="the 9 runs of inss-fig3",
    needs=needs_of(NEEDS),
    draw=draw,
)

"""InSS, Fig. 10: throughput of ten models on four GPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.figure import Figure
from reports.inss_baselines import with_agent
from reports.requests import SERVED
from reports.scheduler_bars import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.row import Row

NEEDS = with_agent()


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, SERVED, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")


FIGURE = Figure(
    name="inss-fig10",
    title="Throughput of ten models on four GPUs, by simulation and by promise",
    paper="InSS, Fig. 10",
    shows="InSS serves 52.8 % more than gpulet (which serves only eight of the ten models), 26.4 % more than GSLICE "
    "and 86.1 % more than iGniter (which uses three of the four GPUs).",
    look_for="What comes is the same for all (19 of 20 requests are served in time by the worst): the rates are ours, "
    "and nobody is asked for more. What differs is what a plan could serve beyond that, the objective: local "
    "search nearly twice as much.",
    cost="the 4 runs of inss-fig3",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

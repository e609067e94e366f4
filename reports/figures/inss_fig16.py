"""InSS, Fig. 16: throughput of 160 workloads on 64 GPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.figure import Figure
from reports.inss_baselines import baselines
from reports.requests import SERVED
from reports.scheduler_bars import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.row import Row

NEEDS = baselines("64gpu-capacity")


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, SERVED, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")


FIGURE = Figure(
    name="inss-fig16",
    title="Throughput of 160 workloads on 64 GPUs, by simulation and by promise",
    paper="InSS, Fig. 16",
    shows="InSS serves up to 66.0 % more than the baselines.",
    look_for="What comes is the same for all; the capacity that local search adds goes where it counts for the "
    "objective, to single AlexNets, and not where chance makes requests late. Elastic partitioning finds no "
    "plan for all 160 workloads. InSS's own agent has no policy for the V100.",
    cost="the 4 runs of inss-fig18",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

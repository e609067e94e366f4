"""InSS, Fig. 16: throughput of 160 workloads on 64 GPUs."""

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


NEEDS = compared("inss-64gpu")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, SERVED, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")


FIGURE = Figure(
    name="inss-fig16",
    title="Throughput of 160 workloads on 64 GPUs, simulated and planned",
    paper="InSS, Fig. 16",
    shows="InSS serves up to 66.0 % more than the baselines.",
    look_for="`ts` plans for nearly twice the throughput of the baselines, which stop once every workload is served: "
    "gslice+ and igniter leave 29 GPUs empty. `ts` decides each group of four GPUs separately, without a larger loss "
    "against local search than on four GPUs. The arriving requests are the same for all, and all serve most of them.",
    cost="the 9 runs of inss-fig18",
    needs=needs_of(NEEDS),
    draw=draw,
)

"""InSS, Fig. 17: requests late and dropped of 160 workloads on 64 GPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.figure import Figure
from reports.inss_baselines import baselines
from reports.palette import QUIET
from reports.requests import NOT_IN_TIME
from reports.scheduler_bars import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.row import Row

NEEDS = baselines("64gpu-capacity")


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, NOT_IN_TIME, _label, rows, folder)


def _label(ax: "Axes") -> None:
    from bench.simulation.result import VIOLATIONS_ALLOWED

    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="Not in time (%)")


FIGURE = Figure(
    name="inss-fig17",
    title="Requests not in time of 160 workloads on 64 GPUs, by simulation",
    paper="InSS, Fig. 17",
    shows="InSS stays below 1 % at 64 GPUs.",
    look_for="All plans fill their slots to what comes on average, and 4 to 7 % of the requests are late for it, by "
    "local search, too: its capacity to spare is in few slots. Elastic partitioning finds no plan for all "
    "160 workloads. InSS's own agent has no policy for the V100.",
    cost="the 4 runs of inss-fig18",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

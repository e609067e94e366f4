"""InSS, Fig. 17: requests late and dropped of 160 workloads on 64 GPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.figure import Figure
from reports.inss_baselines import compared, needs_of
from reports.palette import QUIET
from reports.requests import NOT_IN_TIME
from reports.scheduler_bars import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = compared("inss-64gpu")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, NOT_IN_TIME, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="Not in time (%)")


FIGURE = Figure(
    name="inss-fig17",
    title="Requests not in time of 160 workloads on 64 GPUs, by simulation",
    paper="InSS, Fig. 17",
    shows="InSS stays below 1 % at 64 GPUs.",
    look_for="`ts` is below 1 % at 64 GPUs, as in the paper; so is local search. gslice+, whose plan breaks SLOs, "
    "igniter and gpulet size their slots for the mean rate.",
    cost="the 9 runs of inss-fig18",
    needs=needs_of(NEEDS),
    draw=draw,
)

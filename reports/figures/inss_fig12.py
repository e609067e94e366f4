"""InSS, Fig. 12: requests late and dropped of ten models on four GPUs."""

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


NEEDS = compared("4gpu")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, NOT_IN_TIME, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="Not in time (%)")


FIGURE = Figure(
    name="inss-fig12",
    title="Requests not in time of ten models on four GPUs, by simulation",
    paper="InSS, Fig. 12",
    shows="InSS has 0.7 % of the requests not in time; without its interference model 0.8 % more. gpulet and GSLICE, "
    "which ignore interference, have most.",
    look_for="`ts` is below 1 % in every training, as in the paper. Random arrivals cost most for plans without spare "
    "capacity: gslice+ and igniter, then gpulet, in the paper's order but by more. Local search is near 1 %: it "
    "spends the spare shares on the objective. Requests that cannot be in time are dropped when their batch starts, "
    "so none is late.",
    cost="the 9 runs of inss-fig3",
    needs=needs_of(NEEDS),
    draw=draw,
)

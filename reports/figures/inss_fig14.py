"""InSS, Fig. 14: mean latency of VGG-16's requests."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from reports.figure import Figure
from reports.inss_baselines import compared, needs_of
from reports.requests import mean_latency_ms
from reports.scheduler_bars import BarPart, draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = compared("4gpu")
PARTS = (BarPart("mean latency", lambda row: mean_latency_ms(row, "vgg16", needs_of(NEEDS))),)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, PARTS, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Mean latency (ms)")


FIGURE = Figure(
    name="inss-fig14",
    title="Mean latency of VGG-16's requests on four GPUs, by simulation",
    paper="InSS, Fig. 14",
    shows="InSS has the lowest mean latency of the four.",
    look_for="As in inss-fig13; the trainings of `ts` differ more.",
    cost="the 9 runs of inss-fig3",
    needs=needs_of(NEEDS),
    draw=draw,
)

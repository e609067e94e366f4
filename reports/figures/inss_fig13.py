"""InSS, Fig. 13: mean latency of ResNet-50's requests."""

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
PARTS = (BarPart("mean latency", lambda row: mean_latency_ms(row, "resnet50", needs_of(NEEDS))),)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, PARTS, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Mean latency (ms)")


FIGURE = Figure(
    name="inss-fig13",
    title="Mean latency of ResNet-50's requests on four GPUs, by simulation",
    paper="InSS, Fig. 13",
    shows="InSS has the lowest mean latency of the four.",
    look_for="As in the paper, `ts` is lowest: it distributes all shares, so its slots are faster than needed. gpulet "
    "is next, because its shares come from a coarse grid; the others use up their latency budgets.",
    cost="the 9 runs of inss-fig3",
    needs=needs_of(NEEDS),
    draw=draw,
)

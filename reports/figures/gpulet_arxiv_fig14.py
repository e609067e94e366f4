"""gpulet arXiv'21, Fig. 14: throughput, GPUs, shares and violations while the load changes."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.online_plot import Setting, draw_courses

SETTING = Setting(
    "gpulet-equal",
    2.0,
    "elastic-partitioning",
    headroom=1.2,
    parameters=("elastic-partitioning.variant=arxiv", "elastic-partitioning.interference=true"),
    seconds=1800.0,
)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the load that is served online into ``folder``; it needs no runs."""
    return draw_courses(FIGURE.name, SETTING, folder)


FIGURE = Figure(
    name="gpulet-arxiv-fig14",
    title="Plans under a changing load of five models",
    paper="gpulet arXiv'21, Fig. 14",
    shows="Over 1,800 s shares follow the load of all five models; 0.14 % of the requests are not in time.",
    look_for="Shares rise and fall with the throughput. The fixed plan for the mean rates (dotted) does not follow. "
    "The first wave and the rise of the second are those of gpulet-fig15; in the paper every model has a trace of its "
    "own.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

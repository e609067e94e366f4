"""gpulet arXiv'21, Fig. 13: requests not in time at the largest planned rates."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.gpulet import elastic
from reports.largest_rates import draw_late_at_largest_rates

NAMES = {f"gpulet-{name}": name for name in ("game", "traffic", "equal", "long-only", "short-skew")}
_INSTANCES = ",".join(NAMES)

NEEDS = {
    "gpulet": elastic(_INSTANCES, "arxiv", interference=False),
    "gpulet+int": elastic(_INSTANCES, "arxiv", interference=True),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_late_at_largest_rates(FIGURE, NEEDS, NAMES, rows, folder)


FIGURE = Figure(
    name="gpulet-arxiv-fig13",
    title="Requests not in time at the largest schedulable rates, with and without interference",
    paper="gpulet arXiv'21, Fig. 13",
    shows="Without interference, gpulet has more than 1 % of the requests not in time on equal and short-skew; "
    "gpulet+int does not schedule such rates or serves them.",
    look_for="Without interference, plans for the largest rates have more than 1 % of their requests not in time "
    "everywhere; gpulet+int does not schedule these rates (N). On game both make the same plan.",
    cost="10 runs, a few seconds",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

"""gpulet ATC'22, Fig. 14: requests not in time at the largest planned rates."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.gpulet import elastic
from reports.largest_rates import draw_late_at_largest_rates

NAMES = {"gpulet-game": "game", "gpulet-traffic": "traffic"} | {f"gpulet-scen{n}": f"scen{n}" for n in range(1, 6)}
_INSTANCES = ",".join(NAMES)

NEEDS = {
    "gpulet": elastic(_INSTANCES, "atc22", interference=False),
    "gpulet+int": elastic(_INSTANCES, "atc22", interference=True),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the simulations in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_late_at_largest_rates(FIGURE, NEEDS, NAMES, rows, folder)


FIGURE = Figure(
    name="gpulet-fig14",
    title="Requests not in time at the largest schedulable rates, with and without interference",
    paper="gpulet ATC'22, Fig. 14",
    shows="Without interference, gpulet has more than 1 % of the requests not in time on scen2, scen3 and scen5; "
    "gpulet+int does not schedule those rates (scen2, scen3) or serves them (scen5).",
    look_for="Without interference, plans for the largest rates have more than 1 % of their requests not in time "
    "everywhere, not only in three of seven cases, because they use the full predicted capacity. gpulet+int does not "
    "schedule these rates (N). On game both make the same plan.",
    cost="14 runs, a few seconds",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

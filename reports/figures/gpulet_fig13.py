"""gpulet ATC'22, Fig. 13: most throughput with 99 % of the requests in time."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.gpulet import elastic
from reports.max_rates import draw_max_rates, with_climbs

NAMES = {"gpulet-game": "game", "gpulet-traffic": "traffic"} | {f"gpulet-scen{n}": f"scen{n}" for n in range(1, 6)}
_INSTANCES = ",".join(NAMES)
_QUICK = "gpulet-scen3"

NEEDS = {
    "sbp": Need(_INSTANCES, ("sbp",), quick=_QUICK, parameters=("sbp.halves=false",)),
    "greedy": Need(_INSTANCES, ("greedy-best-fit",), quick=_QUICK, parameters=("greedy-best-fit.interference=true",)),
    "gpulet": elastic(_INSTANCES, "atc22", interference=False, quick=_QUICK),
    "gpulet+int": elastic(_INSTANCES, "atc22", interference=True, quick=_QUICK),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the climbs in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_max_rates(FIGURE, NEEDS, NAMES, rows, folder)


FIGURE = Figure(
    name="gpulet-fig13",
    title="Most throughput with 99 % of the requests in time, by simulation",
    paper="gpulet ATC'22, Fig. 13",
    shows="gpulet+int serves 61.7 % more than squishy bin packing and 81.2 % more than greedy best fit on average. On "
    "game it serves 1,650 req/s and squishy bin packing 690. The interference model contributes 7.5 %.",
    look_for="Without the interference model (hatched) the rates served end far below the planned ones. A bar ends at "
    "the largest rates that are served in time. Lower rates may fail: their plans have few and completely full "
    "gpulets, and turns leave no slack for random arrivals (SLO 5 ms, a LeNet each 3.6 ms in game). gpulet+int is not "
    "ahead by the paper's margins. Stages of game and traffic count one by one. SSD's batches reach the next stage of "
    "traffic all at once, which no plan takes into account.",
    cost="28 climbs of about ten runs each: some minutes on two cores",
    needs=with_climbs(NEEDS),
    draw=draw,
)

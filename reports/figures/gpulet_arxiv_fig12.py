"""gpulet arXiv'21, Fig. 12: most throughput without violations of SLOs."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.gpulet import elastic
from reports.max_rates import draw_max_rates, with_climbs

NAMES = {f"gpulet-{name}": name for name in ("game", "traffic", "equal", "long-only", "short-skew")}
_INSTANCES = ",".join(NAMES)
_QUICK = "gpulet-equal"

NEEDS = {
    "sbp": Need(_INSTANCES, ("sbp",), quick=_QUICK, parameters=("sbp.halves=false",)),
    "self-tuning": Need(_INSTANCES, ("guided-self-tuning",), quick=_QUICK),
    "gpulet": elastic(_INSTANCES, "arxiv", interference=False, quick=_QUICK),
    "gpulet+int": elastic(_INSTANCES, "arxiv", interference=True, quick=_QUICK),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the climbs in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_max_rates(FIGURE, NEEDS, NAMES, rows, folder)


FIGURE = Figure(
    name="gpulet-arxiv-fig12",
    title="Most throughput with 99 % of the requests in time, by simulation",
    paper="gpulet arXiv'21, Fig. 12",
    shows="gpulet and gpulet+int serve 106.0 % and 102.6 % more than squishy bin packing on average, of game 1,502 "
    "req/s where squishy bin packing serves 720; gpulet+int serves 74.8 % more than guided self-tuning.",
    look_for="As in gpulet-fig13, gpulet without the interference model does not serve its planned rates in time. "
    "Bars end at the largest rates that are served in time. In the paper the variant without interference gains over "
    "gpulet+int by its planned rates; in the simulation it loses. On game self-tuning is far ahead, since no LeNet "
    "waits for its turn.",
    cost="20 climbs of about ten runs each: some minutes on two cores",
    needs=with_climbs(NEEDS),
    draw=draw,
)

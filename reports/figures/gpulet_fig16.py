"""gpulet ATC'22, Fig. 16: scenarios that elastic partitioning and the ideal scheduler can schedule."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.figure import Figure, Need
from reports.scenario_counts import draw_counts, missed

if TYPE_CHECKING:
    from bench.ledger.row import Row

_ELASTIC = "elastic-partitioning"
_ATC22 = f"{_ELASTIC}.variant=atc22"

NEEDS = {
    "ideal": Need("gpulet-19682", ("ideal",), quick="gpulet-1790", parameters=("ideal.interference=true",)),
    "gpulet+int": Need(
        "gpulet-19682", (_ELASTIC,), quick="gpulet-1790", parameters=(_ATC22, f"{_ELASTIC}.interference=true")
    ),
    "gpulet": Need(
        "gpulet-19682", (_ELASTIC,), quick="gpulet-1790", parameters=(_ATC22, f"{_ELASTIC}.interference=false")
    ),
}


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the counts in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_counts(FIGURE, NEEDS, {}, rows, folder, lambda found: missed(found, "gpulet+int", "ideal", 520))


FIGURE = Figure(
    name="gpulet-fig16",
    title="Scenarios that elastic partitioning and the ideal scheduler can schedule",
    paper="gpulet ATC'22, Fig. 16",
    shows="Elastic partitioning with interference (gpulet+int) schedules 520 of 19,682 scenarios fewer than the ideal "
    "scheduler, 2.6 % of all.",
    look_for="The small print counts what elastic partitioning misses of the ideal scheduler's scenarios, and the "
    "paper's figure. Without interference (gpulet) more scenarios have a plan, but of most of these plans the "
    "judge finds that they break SLOs.",
    cost="3 scenario sets: about a minute on two cores",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

"""gpulet ATC'22, Fig. 16: scenarios that elastic partitioning and the ideal scheduler can schedule."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.gpulet import elastic, ideal
from reports.scenario_counts import draw_counts, missed

NEEDS = {
    "ideal": ideal("gpulet-19682", quick="gpulet-1790"),
    "gpulet+int": elastic("gpulet-19682", "atc22", interference=True, quick="gpulet-1790"),
    "gpulet": elastic("gpulet-19682", "atc22", interference=False, quick="gpulet-1790"),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the counts in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_counts(FIGURE, NEEDS, {}, rows, folder, lambda found: missed(found, "gpulet+int", "ideal", 520))


FIGURE = Figure(
    name="gpulet-fig16",
    title="Scenarios that elastic partitioning and the ideal scheduler can schedule",
    paper="gpulet ATC'22, Fig. 16",
    shows="Elastic partitioning with interference (gpulet+int) schedules 520 of 19,682 scenarios fewer than the ideal "
    "scheduler, 2.6 % of all.",
    look_for="The note counts the scenarios that the ideal scheduler schedules and elastic partitioning does not, "
    "here and in the paper. Without interference (gpulet) more scenarios have a plan, but the judge finds SLO "
    "violations in most of these plans.",
    cost="3 scenario sets: about a minute on two cores",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

"""gpulet arXiv'21, Fig. 15: scenarios that elastic partitioning and the ideal scheduler can schedule."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.gpulet import elastic, ideal
from reports.scenario_counts import draw_counts, missed

NEEDS = {
    "ideal": ideal("gpulet-1023", quick="gpulet-93"),
    "gpulet+int": elastic("gpulet-1023", "arxiv", interference=True, quick="gpulet-93"),
    "gpulet": elastic("gpulet-1023", "arxiv", interference=False, quick="gpulet-93"),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the counts in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_counts(FIGURE, NEEDS, {}, rows, folder, lambda found: missed(found, "gpulet+int", "ideal", 18))


FIGURE = Figure(
    name="gpulet-arxiv-fig15",
    title="Scenarios that elastic partitioning and the ideal scheduler can schedule",
    paper="gpulet arXiv'21, Fig. 15",
    shows="Elastic partitioning with interference (gpulet+int) schedules 18 of 1,023 scenarios fewer than the ideal "
    "scheduler, 1.8 % of all.",
    look_for="The note counts the scenarios that the ideal scheduler schedules and elastic partitioning does not, "
    "here and in the paper. With these longer times the ideal scheduler cannot schedule a quarter of the scenarios "
    "either.",
    cost="3 scenario sets: about a minute, mostly for unsuccessful searches of the ideal scheduler",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

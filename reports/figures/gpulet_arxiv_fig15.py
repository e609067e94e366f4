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


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw the counts in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_counts(FIGURE, NEEDS, {}, rows, folder, lambda found: missed(found, "gpulet+int", "ideal", 18))


FIGURE = Figure(
    name="gpulet-arxiv-fig15",
    title="Scenarios that elastic partitioning and the ideal scheduler can schedule",
    paper="gpulet arXiv'21, Fig. 15",
    shows="Elastic partitioning with interference (gpulet+int) schedules 18 of 1,023 scenarios fewer than the ideal "
    "scheduler, 1.8 % of all.",
    look_for="The small print counts what elastic partitioning misses of the ideal scheduler's scenarios, and the "
    "paper's figure. On these longer times a quarter of the scenarios is beyond the ideal scheduler as well.",
    cost="3 scenario sets: about a minute, nearly all for the ideal scheduler's searches that find nothing",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

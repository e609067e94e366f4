"""gpulet arXiv'21, Fig. 4: scenarios that squishy bin packing can schedule on whole and on halved GPUs."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.scenario_counts import draw_counts

NEEDS = {
    "sbp": Need("gpulet-1023", ("sbp",), quick="gpulet-93", parameters=("sbp.halves=false",)),
    "sbp, halves": Need("gpulet-1023", ("sbp",), quick="gpulet-93", parameters=("sbp.halves=true",)),
}
PAPER = {"sbp, halves": 1023}
"""Counts of the paper (Sec. 3.1), which gives none for whole GPUs."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the counts in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_counts(FIGURE, NEEDS, PAPER, rows, folder)


FIGURE = Figure(
    name="gpulet-arxiv-fig4",
    title="Scenarios that squishy bin packing can schedule, on whole and on halved GPUs",
    paper="gpulet arXiv'21, Fig. 4",
    shows="Of 1,023 scenarios of five models, squishy bin packing schedules a part on whole GPUs and all of them on "
    "halves. Each half counts as a GPU of its own.",
    look_for="Halves help here too, but for far fewer scenarios: the times are those of the ATC'22 testbed, longer "
    "than those of this version. The judge rejects nearly all plans on halves.",
    cost="2 scenario sets: a few seconds",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

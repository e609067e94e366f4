"""gpulet ATC'22, Fig. 5: scenarios that squishy bin packing can schedule on whole and on halved GPUs."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.scenario_counts import draw_counts

NEEDS = {
    "sbp": Need("gpulet-19682", ("sbp",), quick="gpulet-1790", parameters=("sbp.halves=false",)),
    "sbp, halves": Need("gpulet-19682", ("sbp",), quick="gpulet-1790", parameters=("sbp.halves=true",)),
}
PAPER = {"sbp": 5772, "sbp, halves": 19682}
"""Counts of the paper (Sec. 3.2)."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the counts in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_counts(FIGURE, NEEDS, PAPER, rows, folder)


FIGURE = Figure(
    name="gpulet-fig5",
    title="Scenarios that squishy bin packing can schedule, on whole and on halved GPUs",
    paper="gpulet ATC'22, Fig. 5",
    shows="Of 19,682 scenarios of nine models, squishy bin packing schedules 5,772 on whole GPUs and all of them on "
    "halves. Each half counts as a GPU of its own.",
    look_for="Halves make nearly every scenario schedulable, as in the paper. Whole GPUs serve more than twice as "
    "many scenarios as in the paper, since the times are calibrated from another GPU. The dark part of the lower bar: "
    "the rule ignores interference between halves, and with it nearly all plans on halves break SLOs.",
    cost="2 scenario sets: about a minute on two cores",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

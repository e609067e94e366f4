"""gpulet ATC'22, Fig. 17: largest schedulable rates of elastic partitioning and of the ideal scheduler."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.gpulet import elastic, ideal
from reports.relative_scales import draw_relative_scales

NAMES = {"gpulet-game": "game", "gpulet-traffic": "traffic"} | {f"gpulet-scen{n}": f"scen{n}" for n in range(1, 6)}
_INSTANCES = ",".join(NAMES)
_QUICK = "gpulet-scen2,gpulet-scen3,gpulet-scen4"

NEEDS = {
    "ideal": ideal(_INSTANCES, quick=_QUICK),
    "gpulet+int": elastic(_INSTANCES, "atc22", interference=True, quick=_QUICK),
}
PAPER = {"gpulet+int": 0.926}
"""Means of the paper (Sec. 5.2)."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the scales in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_relative_scales(FIGURE, NEEDS, "ideal", NAMES, PAPER, rows, folder)


FIGURE = Figure(
    name="gpulet-fig17",
    title="Largest schedulable rates of elastic partitioning relative to the ideal scheduler",
    paper="gpulet ATC'22, Fig. 17",
    shows="Elastic partitioning reaches 92.6 % of the ideal scheduler's rates on average.",
    look_for="Compare the mean with its star: as printed, Algorithm 1 has one pass. A second pass "
    "(`second_pass=yes`), which the paper does not have, comes close to the star. Scenarios of two or three large "
    "models lose most. The ideal scheduler enumerates all partitions at every rate. The time limit may stop it; the "
    "note then says so, and its bar is its incumbent.",
    cost="14 runs, about half a minute; at most the time limit for the ideal scheduler",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

"""gpulet arXiv'21, Fig. 16: largest schedulable rates of elastic partitioning and of the ideal scheduler."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.gpulet import elastic, ideal
from reports.relative_scales import draw_relative_scales

NAMES = {"gpulet-arxiv-game": "game", "gpulet-arxiv-traffic": "traffic"} | {
    f"gpulet-{name}": name for name in ("equal", "long-only", "short-skew")
}
_INSTANCES = ",".join(NAMES)
_QUICK = "gpulet-arxiv-traffic,gpulet-long-only"

NEEDS = {
    "ideal": ideal(_INSTANCES, quick=_QUICK),
    "gpulet+int": elastic(_INSTANCES, "arxiv", interference=True, quick=_QUICK),
}
PAPER = {"gpulet+int": 0.923}
"""Means of the paper (Sec. 6.2)."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the scales in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_relative_scales(FIGURE, NEEDS, "ideal", NAMES, PAPER, rows, folder)


FIGURE = Figure(
    name="gpulet-arxiv-fig16",
    title="Largest schedulable rates of elastic partitioning relative to the ideal scheduler",
    paper="gpulet arXiv'21, Fig. 16",
    shows="Elastic partitioning reaches 92.3 % of the ideal scheduler's rates on average, on traffic 87.7 %.",
    look_for="Compare the mean with its star. The lowest bar is the mix of all five models at equal rates; in the "
    "paper it is traffic. The time limit may stop the ideal scheduler; the note then says so.",
    cost="10 runs, about half a minute; at most the time limit for the ideal scheduler",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

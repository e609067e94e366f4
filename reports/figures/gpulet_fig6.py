"""gpulet ATC'22, Fig. 6: turns, sharing in space, and the best partition in two, for four pairs of models."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.relative_scales import draw_relative_scales

NEEDS = {
    "sbp": Need("gpulet-pairs", ("sbp",), parameters=("sbp.halves=false",)),
    "greedy": Need("gpulet-pairs", ("greedy-best-fit",), parameters=("greedy-best-fit.interference=true",)),
    "ideal": Need("gpulet-pairs", ("ideal",), parameters=("ideal.interference=true",)),
}
NAMES = {"gpulet-pair1": "ssd/be", "gpulet-pair2": "res/vgg", "gpulet-pair3": "goo/mob", "gpulet-pair4": "nas/den"}
PAPER = {"sbp": 1.0 / 1.51, "ideal": 1.23}
"""Sec. 3.3: on average greedy best fit is 51 % above squishy bin packing, the static ideal 23 % above greedy."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the scales in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_relative_scales(FIGURE, NEEDS, "greedy", NAMES, PAPER, rows, folder)


FIGURE = Figure(
    name="gpulet-fig6",
    title="Largest rates of two models on two GPUs: turns, sharing in space, best partition",
    paper="gpulet ATC'22, Fig. 6",
    shows="On average greedy best fit (in space) serves 51 % more than squishy bin packing (by turns), and the best "
    "partition of each GPU in two 23 % more than that.",
    look_for="The order of the means is the paper's; the differences are smaller, since turns lose less here. Greedy "
    "best fit takes interference into account, so its plans meet their SLOs. Rates of a pair are equal, which the "
    "paper does not state.",
    cost="12 runs, a few seconds",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

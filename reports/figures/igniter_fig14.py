"""iGniter, Fig. 14: the plans for the twelve workloads side by side."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.plan_bars import draw_plans

NEEDS = (Need("igniter-12", ("igniter", "ffd+", "ffd++", "cpsat")),)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the plans in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_plans(FIGURE.name, NEEDS, rows, folder)


FIGURE = Figure(
    name="igniter-fig14",
    title="Plans for iGniter's twelve workloads",
    paper="iGniter, Fig. 14",
    shows="iGniter serves the twelve workloads on 6 V100s ($18.36/h) without an SLO violation. FFD+ takes 5 "
    "GPUs and violates 10 SLOs, gpu-lets+ takes 8 and violates 3, GSLICE+ takes 6 and violates 3.",
    look_for="iGniter's plan is the published one: 6 GPUs, the same shares and batches. FFD+ saves a GPU at the price "
    "of 9 violations; the paper measured 10, while the judge counts the model's predictions. FFD++ needs 6 GPUs as "
    "well, and so does the exact cpsat.",
    cost="4 runs: a few seconds, and at most the time limit for cpsat",
    needs=NEEDS,
    draw=draw,
)

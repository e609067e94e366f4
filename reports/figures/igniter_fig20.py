"""iGniter, Fig. 20: iGniter's plan for the twelve workloads on T4s."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.plan_bars import draw_plans

NEEDS = (Need("igniter-12-t4", ("igniter",)),)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw iGniter's plan in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_plans(FIGURE.name, NEEDS, [row for row in rows if row.scheduler == "igniter"], folder, across=1)


FIGURE = Figure(
    name="igniter-fig20",
    title="iGniter's plan for its twelve workloads on T4s",
    paper="iGniter, Fig. 20",
    shows="15 T4s ($7.89/h) serve the workloads of 6 V100s ($18.36/h); W7, W8, W10 and W12 take two or more GPUs each.",
    look_for="The same number of T4s at the same price: W7, W8 and W10 on two GPUs each and W12 on three. W5 takes "
    "two as well. The T4's coefficients are calibrated to this number, so it does not validate them.",
    cost="1 run, a second",
    needs=NEEDS,
    draw=draw,
)

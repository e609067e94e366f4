"""iGniter, Table 1: plans for its three motivating workloads (Sec. 2.3)."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.plan_bars import draw_plans

NEEDS = (Need("igniter-3", ("gslice+", "gpu-lets+", "igniter")),)

PAPER = {"gslice+": (1, 2), "gpu-lets+": (2, 2), "igniter": (1, 0)}
"""Number of GPUs and of models whose measured P99 latency exceeds the SLO, for the original GSLICE and gpu-lets."""

_NOTES = ("The paper's GSLICE and gpu-lets are the original ones; here both have the patches of iGniter's evaluation.",)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the plans in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_plans(FIGURE.name, NEEDS, [row for row in rows if row.scheduler in PAPER], folder, notes=_NOTES)


FIGURE = Figure(
    name="igniter-table1",
    title="Plans for iGniter's three motivating workloads",
    paper="iGniter, Table 1",
    shows="GSLICE takes one V100, A(37.5 %, 18) R(30 %, 8) V(40 %, 6); gpu-lets takes two, A(40 %, 23) and R(60 %, 18) "
    "V(40 %, 6); two models violate their SLOs under either. iGniter takes one, A(10 %, 4) R(30 %, 8) V(37.5 %, 6), "
    "without a violation.",
    look_for="iGniter's plan is the published one, share for share, and the others take the published numbers of "
    "GPUs. They have fewer violations: with the batches of iGniter's patches gpu-lets+ has none. gslice+ has one, of "
    "AlexNet, whose share it reduces.",
    cost="3 runs, a second",
    needs=NEEDS,
    draw=draw,
)

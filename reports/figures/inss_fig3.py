"""InSS, Fig. 3: decision time on the small cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from reports.figure import Figure
from reports.inss_baselines import compared, needs_of
from reports.scheduler_bars import BarPart, draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = compared("4gpu")
PARTS = (
    BarPart(
        "decision time", lambda row: None if row.decision_s is None or row.value is None else 1000.0 * row.decision_s
    ),
)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the runs in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, PARTS, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(yscale="log", ylabel="Decision time (ms)")
    ax.set_ylim(bottom=0.1)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


FIGURE = Figure(
    name="inss-fig3",
    title="Decision times for ten models on four GPUs",
    paper="InSS, Fig. 3",
    shows="All three baselines take longer than InSS, longer even than many inferences.",
    look_for="The order is the reverse of the paper's. The tables of inference times are filled before every clock "
    "starts, the baselines' rules are compiled, and `ts` runs two neural networks. Local search uses all its time.",
    cost="9 runs: a few seconds, and the time limit for local search",
    needs=needs_of(NEEDS),
    draw=draw,
)

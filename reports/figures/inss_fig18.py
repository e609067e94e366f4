"""InSS, Fig. 18: GPU usage and fragments of the large cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from reports.figure import Figure
from reports.inss_baselines import compared, needs_of
from reports.palette import QUIET
from reports.scheduler_bars import BarPart, allocated_pct, draw_bars, fragments_pct

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = compared("inss-64gpu")
PARTS = (BarPart("allocated", allocated_pct), BarPart("fragments", fragments_pct, faint=True))
_GPUS = 64


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the runs in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, PARTS, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.axhline(100.0 * _GPUS, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="GPUs in use (% of a GPU)", ylim=(0.0, 110.0 * _GPUS))
    ax.yaxis.set_major_formatter("{x:,.0f}")


FIGURE = Figure(
    name="inss-fig18",
    title="GPU usage and fragments for 160 workloads on 64 GPUs",
    paper="InSS, Fig. 18",
    shows="InSS leaves small fragments on 64 GPUs, the baselines up to eight GPUs' worth.",
    look_for="gslice+ and igniter need 35 GPUs for the arriving requests, gpulet 57; empty GPUs are not fragments. On "
    "the GPUs in use all leave one to two GPUs' worth, `ts` because shares are rounded down on each of 64.",
    cost="9 runs: a minute on two cores",
    needs=needs_of(NEEDS),
    draw=draw,
)

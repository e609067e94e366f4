"""InSS, Fig. 15: GPU usage and fragments of the small cluster."""

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


NEEDS = compared("4gpu")
PARTS = (BarPart("allocated", allocated_pct), BarPart("fragments", fragments_pct, faint=True))
_GPUS = 4


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the runs in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, PARTS, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.axhline(100.0 * _GPUS, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(ylabel="GPUs in use (% of a GPU)", ylim=(0.0, 110.0 * _GPUS))


FIGURE = Figure(
    name="inss-fig15",
    title="GPU usage and fragments for ten models on four GPUs",
    paper="InSS, Fig. 15",
    shows="InSS and gpulet use all GPUs and leave small fragments; iGniter uses three of the four and leaves the "
    "largest.",
    look_for="iGniter uses three GPUs, as in the paper; gpulet and `ts` use all four. Allocated shares are not busy "
    "all the time: bench show has the utilisation of each run.",
    cost="the 9 runs of inss-fig3",
    needs=needs_of(NEEDS),
    draw=draw,
)

"""InSS, Fig. 4: fragments on GPUs in use, on the small cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from reports.figure import Figure
from reports.inss_baselines import compared, needs_of
from reports.scheduler_bars import BarPart, draw_bars, fragments_pct

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = compared("4gpu")
PARTS = (BarPart("fragments", fragments_pct),)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the runs in ``rows`` into ``folder``; see ``Figure.draw``."""
    return draw_bars(FIGURE, NEEDS, PARTS, _label, rows, folder)


def _label(ax: "Axes") -> None:
    ax.set(ylabel="Fragments (% of a GPU)")
    ax.set_ylim(0.0, max(10.0, ax.get_ylim()[1]))


FIGURE = Figure(
    name="inss-fig4",
    title="Resource fragments for ten models on four GPUs",
    paper="InSS, Fig. 4",
    shows="GSLICE and iGniter leave resources unused on GPUs in use; gpulet leaves little, InSS next to none.",
    look_for="The order is the paper's: gslice+ and igniter leave half a GPU. gpulet leaves less, with all four GPUs "
    "in use instead of three. `ts` leaves a tenth, since its shares are rounded down. Local search allocates "
    "everything, as iGniter would with its parameter spend_spare.",
    cost="the 9 runs of inss-fig3",
    needs=needs_of(NEEDS),
    draw=draw,
)

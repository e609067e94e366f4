"""InSS, Fig. 18: how the large cluster is used."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.figure import Figure
from reports.inss_baselines import baselines
from reports.palette import QUIET
from reports.scheduler_bars import Part, allocated_pct, draw_bars, fragments_pct

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.row import Row

NEEDS = baselines("64gpu-capacity")
PARTS = (Part("allocated", allocated_pct), Part("fragments", fragments_pct, faint=True))
_GPUS = 64


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
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
    shows="InSS leaves little over on 64 GPUs, the baselines up to eight GPUs' worth.",
    look_for="Fragments of the sizes that the paper speaks of: five and a half GPUs by gslice+, whose plan breaks "
    "SLOs. Elastic partitioning finds no plan for all 160 "
    "workloads on 64 GPUs at all. InSS's own agent has no policy for the V100.",
    cost="4 runs: a few seconds, and the time limit for local search",
    needs=tuple(NEEDS.values()),
    draw=draw,
)

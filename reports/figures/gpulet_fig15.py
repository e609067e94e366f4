"""gpulet ATC'22, Fig. 15: throughput, GPUs, shares and violations while the load changes."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.online_plot import Setting, draw_courses

SETTING = Setting("gpulet-scen3", 2.3, "gpu-scaling", headroom=1.2)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the load that is served online into ``folder``; it needs no runs."""
    return draw_courses(FIGURE.name, SETTING, folder)


FIGURE = Figure(
    name="gpulet-fig15",
    title="Plans under a changing load of scen3",
    paper="gpulet ATC'22, Fig. 15",
    shows="Over 3,200 s of two waves GPUs and partitions follow the load of scen3; violations stay low.",
    look_for="GPUs and shares rise and fall with the throughput. The fixed plan for the mean rates (dotted) fails "
    "under both waves. Headroom is needed: the next plan is for the rates of the last 20 s and takes 12 s more to be "
    "ready. Four GPUs here, eight in the paper. The shape of the load is the paper's; its heights and delays are ours.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

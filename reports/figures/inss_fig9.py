"""InSS, Fig. 9: late requests and throughput of the agent during training."""

from collections.abc import Sequence
from pathlib import Path

from bench.ledger.row import Row
from reports.figure import Figure
from reports.training_curves import draw_curves


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the curves that come with the policies into ``folder``; it needs no runs."""
    return draw_curves(FIGURE, {"late_pct": "Late (%)", "throughput_rps": "Throughput (req/s)"}, folder)


FIGURE = Figure(
    name="inss-fig9",
    title="Late requests and throughput of InSS's agent during training",
    paper="InSS, Fig. 9",
    shows="Late requests become fewer, below 1 %, and throughput grows.",
    look_for="Late requests become fewer and throughput grows. During exploration late requests stay above 1 % where "
    "everything has to be served (inss-fig12 has the trained agent), and far below where requests are turned away. "
    "Trainings with other seeds end alike.",
    cost="no runs",
    needs=(),
    draw=draw,
)

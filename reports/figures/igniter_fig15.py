"""iGniter, Fig. 15: latency and throughput of W10 over time, tuned reactively and planned ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from bench.online.result import OnlineRun
from reports.figure import Figure
from reports.palette import QUIET
from reports.tuned_and_planned import WORKLOAD, draw_two_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


RATE_RPS, SLO_MS = 150.0, 25.0


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the online runs into ``folder``; they need no runs of the ledger."""
    return draw_two_panels(FIGURE.name, folder, series, _label)


def series(course: OnlineRun) -> tuple[list[float], list[float]]:
    """Return by period the mean time of W10's batches from start to result, in ms, and requests per second."""
    w = course.ids.index(WORKLOAD)
    seen = [period.seen for period in course.periods]
    return (
        [float(each.service_ms[w] / max(1, each.served[w])) for each in seen],
        [float(each.throughput_rps[w]) for each in seen],
    )


def _label(latency: "Axes", throughput: "Axes") -> None:
    for ax, limit in ((latency, SLO_MS / 2.0), (throughput, RATE_RPS)):
        ax.axhline(limit, color=QUIET, linewidth=0.6, linestyle=":")
        ax.set_ylim(0.0, 1.25 * limit)
    latency.set_ylabel(f"Mean time of\n{WORKLOAD}'s batches (ms)")
    throughput.set_ylabel("Served (req/s)")


FIGURE = Figure(
    name="igniter-fig15",
    title="Latency and throughput of W10 over time by GSLICE+ and iGniter",
    paper="iGniter, Fig. 15",
    shows="GSLICE+ finds W10's mean latency (10.7 ms) below half its SLO, reduces its share, and W10 misses its 150 "
    "req/s; iGniter keeps both.",
    look_for="The same result, from tuning each workload alone to within a tenth of its limits: W10 ends with shorter "
    "batches and below its arrival rate (dotted). iGniter's plan stays. Requests arrive at equal distances. The "
    "paper's effect of W9's growth on W10 is not reproduced.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

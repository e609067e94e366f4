"""iGniter, Fig. 15: latency and throughput of W10 over time, tuned reactively and planned ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reports.canvas import COLUMN_IN, page, save, stroke
from reports.constant_load import constant_course
from reports.figure import Figure
from reports.palette import QUIET, scheduler_look

if TYPE_CHECKING:
    from bench.online.result import Course
    from bench.row import Row

WORKLOAD, RATE_RPS, SLO_MS = "W10", 150.0, 25.0
POLICIES = {"gslice+": "reactive", "igniter": "static"}
"""By scheduler of the first plan."""

_SECONDS, _PERIOD_S = 120.0, 10.0
_HEIGHT_IN = 2.8


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw what is served online into ``folder``; it needs no runs."""
    from bench.online.control import Pace

    pace = Pace(_SECONDS, _PERIOD_S, _PERIOD_S)
    with page(COLUMN_IN, _HEIGHT_IN) as sheet:
        latency, throughput = sheet.subplots(2, 1, sharex=True)
        handles = []
        for scheduler, policy in POLICIES.items():
            look = scheduler_look(scheduler)
            service_ms, served_rps = series(constant_course(scheduler, policy, pace), WORKLOAD)
            for ax, values in ((latency, service_ms), (throughput, served_rps)):
                edges_s = [_PERIOD_S * period for period in range(len(values) + 1)]
                ax.stairs(values, edges_s, baseline=None, color=look.colour, linestyle=look.line, linewidth=1.1)
            handles.append(stroke(scheduler, color=look.colour, linestyle=look.line))
        for ax, limit in ((latency, SLO_MS / 2.0), (throughput, RATE_RPS)):
            ax.axhline(limit, color=QUIET, linewidth=0.6, linestyle=":")
            ax.set_ylim(0.0, 1.25 * limit)
            ax.grid()
        latency.set_ylabel(f"Mean time of\n{WORKLOAD}'s batches (ms)")
        throughput.set(ylabel="Served (req/s)", xlabel="Time (s)", xlim=(0.0, _SECONDS))
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        return save(sheet, FIGURE.name, folder)


def series(course: "Course", workload: str) -> tuple[list[float], list[float]]:
    """Return by period the mean time of a workload's batches from start to result, in ms, and requests per second."""
    w = course.ids.index(workload)
    seen = [period.seen for period in course.periods]
    return (
        [float(each.service_ms[w] / max(1, each.served[w])) for each in seen],
        [float(each.throughput_rps[w]) for each in seen],
    )


FIGURE = Figure(
    name="igniter-fig15",
    title="Latency and throughput of W10 over time by GSLICE+ and iGniter",
    paper="iGniter, Fig. 15",
    shows="GSLICE+ finds W10's mean latency (10.7 ms) below half its SLO, takes away share, and W10 falls short of "
    "its 150 req/s; iGniter keeps both.",
    look_for="The same, by tuning each workload alone to within a tenth of its limits: W10 ends with shorter batches "
    "and below the rate that comes (dotted). iGniter's plan stays. Requests come at equal distances; what "
    "W9's growth does to W10 in the paper is not repeated.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

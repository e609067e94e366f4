"""iGniter, Fig. 17: shadow processes that correct prediction errors."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench.ledger.row import Row
from bench.online.control import Pace
from bench.online.result import OnlineRun
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.constant_load import constant_course
from reports.figure import Figure
from reports.figure_style import COLUMN_IN, page, save, stroke
from reports.palette import DEEP_BLUE, VERMILLION

ERROR = 0.1

_SECONDS, _PERIOD_S, _SWITCH_S = 10.0, 1.0, 0.5
_HEIGHT_IN = 1.9
_LINES = ("-", "--", "-.", ":")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the online runs into ``folder``; they need no runs of the ledger."""
    courses = {policy: course(policy) for policy in ("static", "shadow")}
    with page(COLUMN_IN, _HEIGHT_IN) as sheet:
        ax = sheet.subplots()
        handles = []
        broken = violating(courses["static"])
        for policy, colour in (("static", VERMILLION), ("shadow", DEEP_BLUE)):
            for workload, line in zip(broken, _LINES, strict=False):
                late = late_pct(courses[policy], workload)
                edges_s = [_PERIOD_S * period for period in range(len(late) + 1)]
                ax.stairs(late, edges_s, baseline=None, color=colour, linestyle=line, linewidth=1.1)
                handles.append(stroke(f"{workload}, {policy}", color=colour, linestyle=line))
        ax.axhline(100.0 * VIOLATIONS_ALLOWED, color="black", linewidth=0.6, linestyle=":")
        ax.set(ylabel="Not in time (%)", xlabel="Time (s)", xlim=(0.0, _SECONDS))
        ax.set_ylim(bottom=0.0)
        ax.grid()
        sheet.legend(handles=handles, loc="outside upper center", ncols=2)
        return save(sheet, FIGURE.name, folder)


@cache
def course(policy: str) -> OnlineRun:
    """Serve iGniter's plan, made with wrong figures, under a policy for ten seconds."""
    return constant_course("igniter", policy, Pace(_SECONDS, _PERIOD_S, _SWITCH_S), ERROR)


def violating(course: OnlineRun) -> list[str]:
    """Return the workloads with more than one request in a hundred not in time."""
    return [workload for workload, late in zip(course.ids, course.seen.violating, strict=True) if late]


def late_pct(course: OnlineRun, workload: str) -> list[float]:
    """Return by period the percentage of a workload's ended requests that were not in time."""
    w = course.ids.index(workload)
    ended = [
        (int(period.seen.violations[w]), period.seen.served[w] + period.seen.dropped[w]) for period in course.periods
    ]
    return [100.0 * late / max(1, int(all_of_them)) for late, all_of_them in ended]


FIGURE = Figure(
    name="igniter-fig17",
    title="Requests not in time under wrong figures, with and without shadow processes",
    paper="iGniter, Fig. 17",
    shows="Because of a prediction error W1's P99 latency is 15.6 ms in the first second, above its SLO of 10 ms. "
    "After 1.5 s its shadow process, with a tenth more of the GPU, serves it within the SLO.",
    look_for="Figures wrong by up to 10 % break the SLOs of two workloads of iGniter's plan as long as it is kept. "
    "With shadow processes they are met from the third second on. The seed of the errors determines which workloads "
    "these are. Requests arrive at equal distances.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

"""iGniter, Fig. 16: share and batch of W10 over time, tuned reactively and planned ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from instances.suites import suite
from reports.canvas import COLUMN_IN, page, save, stroke
from reports.constant_load import constant_course
from reports.figure import Figure
from reports.palette import scheduler_look

if TYPE_CHECKING:
    from bench.online.result import Course
    from bench.row import Row

WORKLOAD = "W10"
POLICIES = {"gslice+": "reactive", "igniter": "static"}
"""By scheduler of the first plan."""

_SECONDS, _PERIOD_S = 120.0, 10.0
_HEIGHT_IN = 2.8


def draw(rows: "Sequence[Row]", folder: Path) -> list[Path]:
    """Draw what is served online into ``folder``; it needs no runs."""
    from bench.online.control import Pace

    pace = Pace(_SECONDS, _PERIOD_S, _PERIOD_S)
    with page(COLUMN_IN, _HEIGHT_IN) as sheet:
        share, batch = sheet.subplots(2, 1, sharex=True)
        handles = []
        for scheduler, policy in POLICIES.items():
            look = scheduler_look(scheduler)
            for ax, values in zip((share, batch), series(constant_course(scheduler, policy, pace)), strict=True):
                edges_s = [_PERIOD_S * period for period in range(len(values) + 1)]
                ax.stairs(values, edges_s, baseline=None, color=look.colour, linestyle=look.line, linewidth=1.1)
            handles.append(stroke(scheduler, color=look.colour, linestyle=look.line))
        for ax in (share, batch):
            ax.margins(y=0.25)
            ax.set_ylim(bottom=0.0)
            ax.grid()
        share.set_ylabel(f"Share of {WORKLOAD}\n(% of a GPU)")
        batch.set(ylabel=f"Batch of {WORKLOAD}", xlabel="Time (s)", xlim=(0.0, _SECONDS))
        batch.yaxis.get_major_locator().set_params(integer=True)
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        return save(sheet, FIGURE.name, folder)


def series(course: "Course") -> tuple[Sequence[float], Sequence[int]]:
    """Return by period the share from which W10 is served, in percent of a GPU, and its batch."""
    (instance,) = suite("igniter-12").build()
    units = instance.gpus[0].type.share_units
    # Processes take a period to prepare: a plan comes into use as a period ends and serves in the next.
    serving = [course.periods[0].plan, *(period.plan for period in course.periods[:-1])]
    own = [(gpulet, slot) for plan in serving for _, gpulet, slot in plan.slots() if slot.workload == WORKLOAD]
    return [100.0 * gpulet.share_units / units for gpulet, _ in own], [slot.batch for _, slot in own]


FIGURE = Figure(
    name="igniter-fig16",
    title="Share and batch of W10 over time by GSLICE+ and iGniter",
    paper="iGniter, Fig. 16",
    shows="GSLICE+ takes share away from W10, and after 61 s W9 beside it has the whole GPU: more is given than there "
    "is. iGniter plans share and batch once.",
    look_for="GSLICE+ finds W10's batches of two just above half the SLO, makes them batches of one and gives W10 what "
    "is left of the GPU; there it stays. The share is now larger than iGniter's, yet with batches of one W10 falls "
    "short of its rate (igniter-fig15). W9 keeps its share here: nobody is given more than there is.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

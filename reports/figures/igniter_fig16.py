"""iGniter, Fig. 16: share and batch of W10 over time, tuned reactively and planned ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from bench.online.result import OnlineRun
from instances.suites import suite
from reports.figure import Figure
from reports.tuned_and_planned import WORKLOAD, draw_two_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the online runs into ``folder``; they need no runs of the ledger."""
    return draw_two_panels(FIGURE.name, folder, series, _label)


def series(course: OnlineRun) -> tuple[Sequence[float], Sequence[int]]:
    """Return by period the share that serves W10, in percent of a GPU, and its batch."""
    (instance,) = suite("igniter-12").build()
    units = instance.gpus[0].type.share_units
    # Processes take a period to prepare: a plan is put into use at the end of a period and serves in the next.
    serving = [course.periods[0].plan, *(period.plan for period in course.periods[:-1])]
    own = [(gpulet, slot) for plan in serving for _, gpulet, slot in plan.slots() if slot.workload == WORKLOAD]
    return [100.0 * gpulet.share_units / units for gpulet, _ in own], [slot.batch for _, slot in own]


def _label(share: "Axes", batch: "Axes") -> None:
    for ax in (share, batch):
        ax.margins(y=0.25)
        ax.set_ylim(bottom=0.0)
    share.set_ylabel(f"Share of {WORKLOAD}\n(% of a GPU)")
    batch.set_ylabel(f"Batch of {WORKLOAD}")
    batch.locator_params(axis="y", integer=True)


FIGURE = Figure(
    name="igniter-fig16",
    title="Share and batch of W10 over time by GSLICE+ and iGniter",
    paper="iGniter, Fig. 16",
    shows="GSLICE+ reduces the share of W10, and after 61 s W9 beside it has the whole GPU: the shares exceed the "
    "GPU. iGniter plans share and batch once.",
    look_for="GSLICE+ finds W10's batches of two just above half the SLO, reduces them to one and gives W10 the rest "
    "of the GPU. The share stays there, larger than iGniter's, yet with batches of one W10 misses its rate "
    "(igniter-fig15). W9 keeps its share here, since shares never exceed the GPU.",
    cost="no runs, a few seconds",
    needs=(),
    draw=draw,
)

"""MediatorDNN, Fig. 8: improvement of each job's throughput by MediatorDNN's grouping.

A job that waits for its batches cannot serve more requests than arrive, yet most jobs improve in the paper. The
paper's throughput must therefore refer to the time in which batches are processed. The figure shows both: requests
per second of processing, and requests per second.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.judging.judge import judge
from bench.ledger.row import Row
from instances.files import plan_from_json
from reports.figure import Figure, Need, NothingToDrawError
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, swatch, write_note
from reports.palette import QUIET, scheduler_look
from reports.selection import gaps, instances_of, own_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


OURS, OTHERS = "mediator", ("horus", "bin-packing")
NEEDS = (Need("mediator-40", (OURS, *OTHERS), quick="mediator-40-s0"),)

_HEIGHT_IN = 4.0
_GROUP_WIDTH = 0.8

Rates = Mapping[str, float]
"""Requests per second by job."""


class Fares(NamedTuple):
    """Throughput of jobs under a plan: requests per second of processing (uniform launches), and requests served."""

    processed: Rates
    served: Rates


Plans = Mapping[str, Fares]
"""Throughputs by scheduler."""

_MEASURES: tuple[tuple[str, Callable[[Fares], Rates]], ...] = (
    ("Processed faster (%)", lambda fares: fares.processed),
    ("More requests served (%)", lambda fares: fares.served),
)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the improvements that the plans of ``rows`` give into ``folder``; see ``Figure.draw``."""
    own = own_rows(FIGURE.name, rows, NEEDS)
    found: dict[str, dict[str, Fares]] = {}
    for row in own:
        plans = found.setdefault(row.instance, {})
        if row.plan is not None and row.scheduler in (OURS, *OTHERS) and row.scheduler not in plans:
            plans[row.scheduler] = fares(row)
    compared = {name: plans for name, plans in found.items() if OURS in plans and len(plans) > 1}
    notes = gaps(FIGURE.name, own, [row for row in own if row.plan is None], NEEDS)
    if not compared:
        raise NothingToDrawError(FIGURE.name, f"no two plans to compare. {' '.join(notes)}")
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        panels = sheet.subplots(len(_MEASURES), 2, width_ratios=(4, 1), sharex="col")
        name, first = next(iter(compared.items()))
        for (by_job, by_mix), (label, rates) in zip(panels, _MEASURES, strict=True):
            _draw_jobs(by_job, first, rates)
            _draw_mixes(by_mix, compared, rates)
            by_job.set_ylabel(label)
        panels[0, 0].set_title(name)
        panels[0, 1].set_title("mean over jobs")
        panels[-1, 0].set_xlabel("Job")
        panels[-1, 1].set_xlabel("Mix")
        handles = [swatch(scheduler_look(other).colour, f"{OURS} over {other}", edgecolor="black") for other in OTHERS]
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def fares(row: Row) -> Fares:
    """Return the throughput of the jobs under the plan of a row, by the judge."""
    plan = plan_from_json(row.plan)
    slots = judge(plan, instances_of(NEEDS)[row.instance]).slots
    batch = {slot.workload: slot.batch for _, _, slot in plan.slots()}
    return Fares(
        {slot.workload: 1000.0 * batch[slot.workload] / slot.t_inf_ms for slot in slots},
        {slot.workload: slot.throughput_rps for slot in slots},
    )


def improvement_pct(ours: Rates, theirs: Rates) -> dict[str, float]:
    """Return each job's improvement in percent; jobs without throughput on one side are left out."""
    return {job: 100.0 * (ours[job] / rate - 1.0) for job, rate in theirs.items() if rate > 0.0 and job in ours}


def _draw_jobs(ax: "Axes", plans: Plans, rates: Callable[[Fares], Rates]) -> None:
    others = [other for other in OTHERS if other in plans]
    jobs = sorted(plans[OURS].served, key=lambda job: int(job.removeprefix("j")))
    for number, other in enumerate(others):
        better = improvement_pct(rates(plans[OURS]), rates(plans[other]))
        width = _GROUP_WIDTH / len(others)
        at = [x + (number - (len(others) - 1) / 2.0) * width for x in range(len(jobs))]
        heights = [better.get(job, 0.0) for job in jobs]
        ax.bar(at, heights, width, color=scheduler_look(other).colour, edgecolor="black", linewidth=0.2)
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    ax.set_xlim(-0.7, len(jobs) - 0.3)
    ax.set_xticks(range(0, len(jobs), 3), [job.removeprefix("j") for job in jobs[::3]])
    ax.grid(axis="y")


def _draw_mixes(ax: "Axes", compared: Mapping[str, Plans], rates: Callable[[Fares], Rates]) -> None:
    """Draw the mean over the jobs of each mix."""
    width = _GROUP_WIDTH / len(OTHERS)
    for number, other in enumerate(OTHERS):
        for x, plans in enumerate(compared.values()):
            if other in plans:
                better = list(improvement_pct(rates(plans[OURS]), rates(plans[other])).values())
                mean, at = sum(better) / max(1, len(better)), x + (number - 0.5) * width
                ax.bar(at, mean, width, color=scheduler_look(other).colour, edgecolor="black", linewidth=0.2)
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    ax.set_xticks(range(len(compared)), [name.rpartition("-")[2] for name in compared])
    ax.grid(axis="y")


FIGURE = Figure(
    name="mediator-fig8",
    title="Throughput of MediatorDNN's jobs compared with Horus and bin packing",
    paper="MediatorDNN, Fig. 8",
    shows="On a GPU the throughput of the forty jobs is 21 % higher than under Horus and 31 % higher than under bin "
    "packing on average, at most 108 % and 79 %; for some jobs it is lower.",
    look_for="Above, batches are processed faster on average in each mix, though not for every job; the gain differs "
    "from mix to mix. Below, most jobs serve the same number of requests, since waiting requests are served later. "
    "Without mediator, only jobs on GPUs at or above full demand serve fewer.",
    cost="15 runs, about 10 s",
    needs=NEEDS,
    draw=draw,
)

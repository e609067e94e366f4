"""MediatorDNN, Fig. 4, 8 and 9: the portfolio effect, throughput of the jobs, and demand of groups over time.

A job that waits for its batches cannot serve more requests than arrive, but most jobs improve in the paper's Fig. 8.
Therefore, the paper's throughput must be per second of processing time. The figure shows both: requests per second of
processing time, and requests per second.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np

from bench.judging.colocation import demand_over_time, over_capacity_pct
from bench.judging.judge import judge
from bench.ledger.row import Row
from heuristics.mediator.mediator import BinPacking, Mediator
from heuristics.mediator.utilisation import Utilisation
from instances import PlacedGpu
from instances.arrays import Floats
from instances.view import View
from reports.charts.groups import side_by_side
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke, swatch, with_legend
from reports.charts.palette import ALARM, OBSERVED, QUIET, scheduler_look
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.need import Need, NothingToDrawError
from reports.placement import gpus
from reports.runs import Runs, the_instance
from reports.selection import figure_rows, missing_notes, plans_and_notes

MEAN_PCT = (30.0, 30.0, 30.0, 30.0)
DEVIATION_PCT = (20.0, 2.0, 20.0, 2.0)
OURS, OTHERS = "mediator", ("horus", "bin-packing")
ALL_SCHEDULERS = (OURS, *OTHERS)
_FORTY_JOBS = Need("mediator-40", ALL_SCHEDULERS, quick="mediator-40-s0")

Rates = Mapping[str, float]
"""Requests per second by job."""


class JobThroughputs(NamedTuple):
    """Throughput of jobs under a plan.

    ``processed`` has requests per second of processing time: a job's largest batch divided by its mean launch time.
    ``served`` has requests served per second.
    """

    processed: Rates
    served: Rates


Plans = Mapping[str, JobThroughputs]
"""Throughputs by scheduler."""

_MEASURES: tuple[tuple[str, Callable[[JobThroughputs], Rates]], ...] = (
    ("Processed faster (%)", lambda jobs: jobs.processed),
    ("More requests served (%)", lambda jobs: jobs.served),
)

_PORTFOLIO_HEIGHT_IN, _THROUGHPUT_HEIGHT_IN = 2.2, 4.0
_PANEL_IN, _MARGINS_IN = 1.25, 0.6


def _draw_portfolios(figure: Figure, rows: Sequence[Row]) -> Page:
    pairs = colocations()
    sheet = page(FULL_WIDTH_IN, _PORTFOLIO_HEIGHT_IN)
    panels = sheet.subplots(1, 2, sharey=True)
    for ax, (scheduler, groups) in zip(panels, pairs.items(), strict=True):
        _draw_groups(ax, groups, scheduler_look(scheduler).colour)
        total_pct = sum(deviation_pct(group) for group in groups)
        ax.set_title(f"{scheduler}: deviations of both GPUs together {total_pct:.1f} %")
    panels[0].set_ylabel("Utilisation (%)")
    handles = [swatch(scheduler_look(scheduler).colour, f"mean utilisation, {scheduler}") for scheduler in pairs]
    handles.append(swatch(OBSERVED, "standard deviation of the portfolio"))
    return with_legend(sheet, handles, 3)


def colocations() -> dict[str, list[list[int]]]:
    """Return the pairs of the four jobs that each scheduler makes; a job is its position."""
    jobs = Utilisation(np.array(MEAN_PCT) / 100.0, np.array(DEVIATION_PCT) / 100.0, np.ones((4, 1)))
    return {rule.name: rule.groups(jobs, lambda group: len(group) <= 2) for rule in (BinPacking(), Mediator())}


def deviation_pct(group: Sequence[int]) -> float:
    """Return the standard deviation of the joint utilisation of a group's jobs (equation 3)."""
    return sqrt(sum(DEVIATION_PCT[job] ** 2 for job in group))


def _draw_groups(ax: Axes, groups: Sequence[Sequence[int]], colour: str) -> None:
    for x, group in enumerate(groups):
        base_pct = 0.0
        for job in group:
            ax.bar(x, MEAN_PCT[job], 0.6, bottom=base_pct, color=colour, edgecolor="white")
            label = f"job {job + 1}: {MEAN_PCT[job]:g} ± {DEVIATION_PCT[job]:g}"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            ax.text(x, base_pct + MEAN_PCT[job] / 2.0, label, ha="center", va="center", bbox=box)
            base_pct += MEAN_PCT[job]
        spread_pct = deviation_pct(group)
        ax.bar(x, spread_pct, 0.6, bottom=base_pct, color=OBSERVED, edgecolor="white")
        ax.text(x, base_pct + spread_pct, f"{spread_pct:.1f}", ha="center", va="bottom")
    ax.set(ylim=(0.0, 105.0), xlim=(-0.6, len(groups) - 0.4))
    ax.set_xticks(range(len(groups)), [f"GPU {x + 1}" for x in range(len(groups))])
    ax.tick_params(axis="x", length=0)


def _draw_improvements(figure: Figure, rows: Sequence[Row]) -> Page:
    used_rows = figure_rows(figure, rows)
    plans_by_instance: dict[str, dict[str, JobThroughputs]] = {}
    for row in used_rows:
        plans = plans_by_instance.setdefault(row.instance, {})
        if row.plan is not None and row.scheduler in ALL_SCHEDULERS and row.scheduler not in plans:
            plans[row.scheduler] = job_throughputs(row)
    compared_plans = {name: plans for name, plans in plans_by_instance.items() if OURS in plans and len(plans) > 1}
    notes = missing_notes(figure, used_rows, [row for row in used_rows if row.plan is None])
    if not compared_plans:
        raise NothingToDrawError(figure.name, f"no two plans to compare. {' '.join(notes)}")
    sheet = page(FULL_WIDTH_IN, _THROUGHPUT_HEIGHT_IN, notes)
    panels = sheet.subplots(len(_MEASURES), 2, width_ratios=(4, 1), sharex="col")
    name, first_plans = next(iter(compared_plans.items()))
    for (by_job, by_mix), (label, rates) in zip(panels, _MEASURES, strict=True):
        _draw_jobs(by_job, first_plans, rates)
        _draw_mixes(by_mix, compared_plans, rates)
        by_job.set_ylabel(label)
    panels[0, 0].set_title(name)
    panels[0, 1].set_title("mean over jobs")
    panels[-1, 0].set_xlabel("Job")
    panels[-1, 1].set_xlabel("Mix")
    handles = [swatch(scheduler_look(other).colour, f"{OURS} over {other}", edgecolor="black") for other in OTHERS]
    return with_legend(sheet, handles)


def job_throughputs(row: Row) -> JobThroughputs:
    """Return the throughput of the jobs under the plan of a row, by the judge."""
    plan = row.plan
    assert plan is not None
    slots = judge(plan, the_instance(row.instance)).slots
    batch_of = {slot.workload: slot.batch for _, _, slot in plan.slots()}
    return JobThroughputs(
        {slot.workload: 1000.0 * batch_of[slot.workload] / slot.t_inf_ms for slot in slots},
        {slot.workload: slot.throughput_rps for slot in slots},
    )


def improvement_pct(ours: Rates, theirs: Rates) -> dict[str, float]:
    """Return each job's improvement from ``theirs`` to ``ours`` in percent; jobs need a throughput on both sides."""
    return {
        job: 100.0 * (ours[job] / their_rate - 1.0)
        for job, their_rate in theirs.items()
        if their_rate > 0.0 and job in ours
    }


def _draw_jobs(ax: Axes, throughputs_of: Plans, rates: Callable[[JobThroughputs], Rates]) -> None:
    compared_schedulers = [other for other in OTHERS if other in throughputs_of]
    jobs = sorted(throughputs_of[OURS].served, key=lambda job: int(job.removeprefix("j")))
    width, group = side_by_side(compared_schedulers)
    for offset, other in group:
        improvements = improvement_pct(rates(throughputs_of[OURS]), rates(throughputs_of[other]))
        heights = [improvements.get(job, 0.0) for job in jobs]
        ax.bar(
            [x + offset for x in range(len(jobs))],
            heights,
            width,
            color=scheduler_look(other).colour,
            edgecolor="black",
            linewidth=0.2,
        )
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    ax.set_xlim(-0.7, len(jobs) - 0.3)
    ax.set_xticks(range(0, len(jobs), 3), [job.removeprefix("j") for job in jobs[::3]])
    ax.grid(axis="y")


def _draw_mixes(ax: Axes, plans_by_mix: Mapping[str, Plans], rates: Callable[[JobThroughputs], Rates]) -> None:
    """Draw the mean improvement over the jobs of each mix."""
    width, group = side_by_side(OTHERS)
    for offset, other in group:
        for x, plans in enumerate(plans_by_mix.values()):
            if other in plans:
                improvements = list(improvement_pct(rates(plans[OURS]), rates(plans[other])).values())
                mean = sum(improvements) / max(1, len(improvements))
                ax.bar(x + offset, mean, width, color=scheduler_look(other).colour, edgecolor="black", linewidth=0.2)
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    ax.set_xticks(range(len(plans_by_mix)), [name.rpartition("-")[2] for name in plans_by_mix])
    ax.grid(axis="y")


def _draw_demand(figure: Figure, rows: Sequence[Row]) -> Page:
    plans, notes = plans_and_notes(figure, rows)
    sheet = page(FULL_WIDTH_IN, _PANEL_IN * len(plans) + _MARGINS_IN, notes)
    axes = sheet.subplots(len(plans), 1, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, (scheduler, row) in zip(axes, plans.items(), strict=True):
        _draw_group(ax, scheduler, row)
    for ax in axes:
        ax.set_ylabel("Demand (% of a GPU)")
        ax.axhline(100.0, color=ALARM, linewidth=0.9, linestyle="--")
    axes[0].set_ylim(bottom=0.0)  # applies to all panels and must follow their drawing
    axes[-1].set_xlabel("Time (s)")
    handles = [stroke(f"all jobs, {scheduler}", color=scheduler_look(scheduler).colour) for scheduler in plans]
    handles += [stroke("each job", color=QUIET, linewidth=0.5), stroke("capacity", color=ALARM, linestyle="--")]
    return with_legend(sheet, handles)


def busiest_group(row: Row) -> tuple[int, PlacedGpu, Floats]:
    """Return position, GPU and demand of the GPU that is over capacity longest in a row's plan.

    The first of several such GPUs counts. The demand is that of ``bench.judging.colocation.demand_over_time``.
    """
    instance = the_instance(row.instance)
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    groups = [(position, gpu, demand_over_time(gpu, views[gpu.type])) for position, gpu in enumerate(gpus(row))]
    return max(groups, key=lambda group: over_capacity_pct(group[2]))


def _draw_group(ax: Axes, scheduler: str, row: Row) -> None:
    position, gpu, demand = busiest_group(row)
    over_pct = over_capacity_pct(demand)
    for job in demand:
        ax.plot(100.0 * job, color=QUIET, linewidth=0.4)
    ax.plot(100.0 * demand.sum(axis=0), color=scheduler_look(scheduler).colour, linewidth=0.9)
    ax.set_title(f"{scheduler}: GPU {position + 1}, {len(gpu.gpulets)} jobs, over capacity {over_pct:.1f} %")
    ax.margins(x=0.0)


def _rows(scheduler: str, runs: Runs) -> list[Row]:
    return runs.rows(Need(_FORTY_JOBS.instances, (scheduler,)))


@query
def _improvements(runs: Runs, other: str, rates: Callable[[JobThroughputs], Rates]) -> Values:
    """Return the improvement of the jobs in percent: mean over mixes of the mean over jobs, and largest of any job."""
    improvements_by_mix = [
        list(improvement_pct(rates(_job_throughputs(ours)), rates(_job_throughputs(theirs))).values())
        for ours, theirs in zip(_rows(OURS, runs), _rows(other, runs), strict=True)
    ]
    return fmean(map(fmean, improvements_by_mix)), max(map(max, improvements_by_mix))


_THROUGHPUTS_BY_KEY: dict[str, JobThroughputs] = {}
"""Throughputs by key of the run, kept because several claims need the throughputs of one run."""


def _job_throughputs(row: Row) -> JobThroughputs:
    if row.key not in _THROUGHPUTS_BY_KEY:
        _THROUGHPUTS_BY_KEY[row.key] = job_throughputs(row)
    return _THROUGHPUTS_BY_KEY[row.key]


@query
def _means(runs: Runs, quantity: Callable[[Row], float | None]) -> Values:
    return tuple(
        fmean(value for row in _rows(name, runs) if (value := quantity(row)) is not None) for name in ALL_SCHEDULERS
    )


def _lead_per_gpu(runs: Runs) -> Values:
    """Return the lead of ``mediator`` over each other scheduler in percent, by requests per GPU over all mixes."""
    served_per_gpu = {
        name: sum(sum(_job_throughputs(row).served.values()) for row in _rows(name, runs))
        / sum(row.gpus_used or 0 for row in _rows(name, runs))
        for name in ALL_SCHEDULERS
    }
    return tuple(100.0 * (served_per_gpu[OURS] / served_per_gpu[other] - 1.0) for other in OTHERS)


def _not_modelled(_: Runs) -> Values:
    """Return a dash, for a quantity that the bench does not model."""
    return ("–",)


_NO_CPU_REASON = "no measurements of these DNNs on a CPU server are published"

FIG4 = Figure(
    name="mediator-fig4",
    title="The portfolio effect on four jobs in pairs",
    paper="MediatorDNN, Fig. 4",
    shows="Four jobs use 30 % each. Two of them vary by 20 %, two by 2 %. With one of each kind per GPU the "
    "deviations add up to 40 %; with equal kinds together, to 31 %.",
    look_for="The schedulers themselves give the same 40 and 31: bin-packing ignores deviations and takes the jobs in "
    "their order; mediator groups equal kinds.",
    draws=_draw_portfolios,
    claims=(
        Claim(
            what="Fig. 4: sum of the deviations of two pairs of jobs, blind and by portfolio",
            paper=(40, 31),
            ours=lambda _: tuple(sum(map(deviation_pct, colocations()[name])) for name in ("bin-packing", OURS)),
            form="{:.0f} and {:.0f}",
            within=0.01,
        ),
    ),
)

FIG8 = Figure(
    name="mediator-fig8",
    title="Throughput of MediatorDNN's jobs compared with Horus and bin packing",
    paper="MediatorDNN, Fig. 8",
    shows="On a GPU the throughput of the forty jobs is 21 % higher than under Horus and 31 % higher than under bin "
    "packing on average, at most 108 % and 79 %; for some jobs it is lower.",
    look_for="Above, batches are processed faster on average in each mix, though not for every job; the gain differs "
    "from mix to mix. Below, most jobs serve the same number of requests, since waiting requests are served later. "
    "Under horus and bin-packing, only jobs on GPUs at or above full demand serve fewer.",
    cost="15 runs, about 10 s",
    needs=(_FORTY_JOBS,),
    draws=_draw_improvements,
    claims=(
        *(
            Claim(
                what=f"Fig. 8 (GPU): gain in a job's served requests over {other}, mean and largest",
                paper=(paper_pct, most_pct),
                ours=_improvements(other, lambda throughputs: throughputs.served),
                form="{:+.3g} %, {:+.0f} %",
                within=0.1,
                reason="a job serves at most the arriving requests; a GPU that keeps up serves all of them, only later",
            )
            for other, paper_pct, most_pct in zip(OTHERS, (21, 31), (108, 79), strict=True)
        ),
        *(
            Claim(
                what=f"– the same per second of processing time, over {other}",
                paper=NOTHING_PUBLISHED,
                ours=_improvements(other, lambda throughputs: throughputs.processed),
                form="{:+.3g} %, {:+.0f} %",
            )
            for other in OTHERS
        ),
        Claim(
            what="Fig. 8 (CPU): mean gain in a job's throughput over horus and bin-packing",
            paper="+10 %, +22 %",
            ours=_not_modelled,
            not_comparable=_NO_CPU_REASON,
        ),
    ),
)

FIG9 = Figure(
    name="mediator-fig9",
    title="Demand of a group of jobs over time",
    paper="MediatorDNN, Fig. 9",
    shows="The demand of a MediatorDNN group exceeds the GPU's capacity less often than that of a Horus or "
    "bin-packing group.",
    look_for="The group of each plan that is over capacity longest. The line of mediator is below the capacity most "
    "of the time. Those of horus and bin-packing, which fill GPUs to the mean, cross it often.",
    cost="3 of the runs of mediator-fig8",
    needs=(Need("mediator-40-s0", ALL_SCHEDULERS),),
    draws=_draw_demand,
    claims=(
        Claim(
            what=f"Fig. 9: time over capacity, {', '.join(ALL_SCHEDULERS)}",
            paper="less often than both",
            ours=_means(lambda row: row.over_capacity_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
            supports=lambda ours, *others: ours < min(others),
            criterion="below both",
        ),
        Claim(
            what="Number of GPUs (groups), in the same order",
            paper="more than both",
            ours=_means(lambda row: row.gpus_used),
            form="{:.1f}, {:.1f}, {:.1f}",
            supports=lambda ours, *others: ours > max(others),
            criterion="above both",
        ),
        Claim(
            what=f"Difference in requests served per GPU from {' and '.join(OTHERS)}",
            paper=NOTHING_PUBLISHED,
            ours=_lead_per_gpu,
            form="{:+.1f} %, {:+.1f} %",
            note="mediator serves more requests per job because it leaves room on its GPUs",
        ),
    ),
)

TABLE5_CLAIMS = (
    Claim(
        what="Table V (GPU): gain in throughput per watt over horus and bin-packing",
        paper="+8.05 %, +7.42 %",
        ours=_not_modelled,
        not_comparable="the RTX 2080 Ti stands in for the paper's GPU, and no power of these DNNs is published for it",
    ),
    Claim(
        what="Table V (CPU): gain in throughput per watt over horus and bin-packing",
        paper="+4.74 %, +17.06 %",
        ours=_not_modelled,
        not_comparable=_NO_CPU_REASON,
    ),
)
"""Claims on Table V, which is not drawn."""

FIGURES = (FIG4, FIG8, FIG9)

"""MediatorDNN, Fig. 4 and 9: the portfolio effect, and demand of groups over time."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean

import numpy as np

from bench.judging.colocation import demand_over_time, over_capacity_pct
from bench.ledger.row import Row
from heuristics.mediator.mediator import BinPacking, Mediator
from heuristics.mediator.utilisation import Utilisation
from instances import PlacedGpu
from instances.arrays import Floats
from instances.colocation import Sample
from instances.view import View
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke, swatch, with_legend
from reports.charts.palette import ALARM, OBSERVED, QUIET, scheduler_look
from reports.claim import NOTHING_PUBLISHED, Claim
from reports.figure import Figure
from reports.need import Need
from reports.papers.mediator_throughput import (
    ALL_SCHEDULERS,
    FORTY_JOBS,
    OTHERS,
    OURS,
    PAIRED_JOBS,
    lead_per_gpu,
    means,
)
from reports.placement import gpus
from reports.runs import the_instance
from reports.selection import plans_and_notes

MEAN_PCT = (30.0, 30.0, 30.0, 30.0)
DEVIATION_PCT = (20.0, 2.0, 20.0, 2.0)
"""Mean and standard deviation of the utilisation of each of the four jobs of Fig. 4."""

_PORTFOLIO_HEIGHT_IN = 2.2
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
    no_memory = np.zeros(4)
    return {
        rule.name: rule.groups_of_jobs(jobs, no_memory, lambda group: len(group) <= 2)
        for rule in (BinPacking(), Mediator())
    }


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


def profiled_groups(row: Row) -> list[tuple[int, PlacedGpu, Floats]]:
    """Return position, GPU and demand of every GPU of a row's plan, as obtained in the profiling step (Sec. IV-C).

    The demand is that of ``bench.judging.colocation.demand_over_time``.
    """
    instance = the_instance(row.instance)
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    return [
        (position, gpu, demand_over_time(gpu, views[gpu.type], Sample.PROFILE))
        for position, gpu in enumerate(gpus(row))
    ]


def busiest_group(row: Row) -> tuple[int, PlacedGpu, Floats]:
    """Return the group of a row's plan that is over capacity longest in the profiling step; the first of equals."""
    return max(profiled_groups(row), key=lambda group: over_capacity_pct(group[2]))


def profiled_over_pct(row: Row) -> float:
    """Return the time over capacity in the profiling step in percent, as a mean over the GPUs of a row's plan."""
    return fmean(over_capacity_pct(demand) for _, _, demand in profiled_groups(row))


def longest_over_pct(row: Row) -> float:
    """Return the time over capacity in the profiling step in percent, of the group that is over capacity longest."""
    return max(over_capacity_pct(demand) for _, _, demand in profiled_groups(row))


def first_over_pct(row: Row) -> float:
    """Return the time over capacity in the profiling step in percent, of the group on the first GPU of a row's plan."""
    return over_capacity_pct(profiled_groups(row)[0][2])


def gpus_in_use(row: Row) -> float | None:
    """Return the mean number of GPUs that execute a launch at a moment; ``None`` without a plan."""
    if row.gpus_used is None or row.utilisation_pct is None:
        return None
    return row.gpus_used * row.utilisation_pct / 100.0


def _draw_group(ax: Axes, scheduler: str, row: Row) -> None:
    position, gpu, demand = busiest_group(row)
    over_pct = over_capacity_pct(demand)
    for job in demand:
        ax.plot(100.0 * job, color=QUIET, linewidth=0.4)
    ax.plot(100.0 * demand.sum(axis=0), color=scheduler_look(scheduler).colour, linewidth=0.9)
    ax.set_title(f"{scheduler}: GPU {position + 1}, {len(gpu.gpulets)} jobs, over capacity {over_pct:.1f} %")
    ax.margins(x=0.0)


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
            paper="40 and 31",
            ours=lambda _: tuple(sum(map(deviation_pct, colocations()[name])) for name in ("bin-packing", OURS)),
            form="{:.0f} and {:.0f}",
            not_comparable="the example fixes the pairs, and the sum is arithmetic: it agrees by construction",
        ),
    ),
)


def _demand_claims(need: Need, suite: str) -> tuple[Claim, ...]:
    """Return the claims on the demand and the number of groups, with the runs of one suite."""
    return (
        Claim(
            what=f"Fig. 9: time over capacity in the profiling step, mean over all groups, by "
            f"{', '.join(ALL_SCHEDULERS)}; {suite}",
            paper="less often than both",
            ours=means(need, profiled_over_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
            supports=lambda ours, *others: ours < min(others),
            criterion="below both",
            note='the paper\'s capacity is that of "the server", perhaps of the CPU server; ours is that of a GPU',
        ),
        Claim(
            what="– of the group that is over capacity longest, as in the drawing",
            paper=NOTHING_PUBLISHED,
            ours=means(need, longest_over_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
            note='the paper draws "one of the co-location groups" of each scheduler',
        ),
        Claim(
            what="– of the group that is formed first",
            paper=NOTHING_PUBLISHED,
            ours=means(need, first_over_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
        ),
        Claim(
            what="– mean over all groups, with the batches by which plans are judged, which no scheduler sees",
            paper=NOTHING_PUBLISHED,
            ours=means(need, lambda row: row.over_capacity_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
        ),
        Claim(
            what=f"Sec. IV-C: mean utilisation of a GPU under {', '.join(ALL_SCHEDULERS)}; {suite}",
            paper="MediatorDNN uses more resources",
            ours=means(need, lambda row: row.utilisation_pct),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
            supports=lambda ours, *others: ours > max(others),
            criterion="above both",
            reason="a group of `mediator` leaves a part of the GPU free for the deviations of its jobs, whereas "
            "`horus` and `bin-packing` fill all GPUs but the last up to the means",
        ),
        Claim(
            what="– in sum over all GPUs, in GPUs",
            paper=NOTHING_PUBLISHED,
            ours=means(need, gpus_in_use),
            form="{:.2f}, {:.2f}, {:.2f}",
        ),
        Claim(
            what="– number of GPUs (groups), in the same order",
            paper="MediatorDNN uses more resources",
            ours=means(need, lambda row: row.gpus_used),
            form="{:.1f}, {:.1f}, {:.1f}",
            not_comparable="the paper means utilisation and power, see the lines above, and prints no number of groups",
        ),
        Claim(
            what=f"– difference in requests served per GPU from {' and '.join(OTHERS)}",
            paper=NOTHING_PUBLISHED,
            ours=lead_per_gpu(need),
            form="{:+.1f} %, {:+.1f} %",
        ),
    )


FIG9 = Figure(
    name="mediator-fig9",
    title="Demand of a group of jobs over time",
    paper="MediatorDNN, Fig. 9",
    shows="The demand of a MediatorDNN group exceeds the GPU's capacity less often than that of a Horus or "
    "bin-packing group, by the profiles of the jobs.",
    look_for="The group of each plan that is over capacity longest. The line of mediator is below the capacity most "
    "of the time. Those of horus and bin-packing, which fill GPUs to the mean, cross it often.",
    cost="3 of the runs of mediator-fig8",
    needs=(Need("mediator-40-s0", ALL_SCHEDULERS),),
    draws=_draw_demand,
    claims=(
        *_demand_claims(FORTY_JOBS, "launches take turns"),
        *_demand_claims(PAIRED_JOBS, "measured pairs"),
    ),
)

FIGURES = (FIG4, FIG9)

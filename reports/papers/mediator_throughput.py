"""MediatorDNN, Fig. 8 and Table V: throughput of the jobs, compared with Horus and bin packing.

The throughput of a job is its requests per second of processing time, that is of the time in which one of its batches
is transferred or on the GPU: its largest batch over the mean of this time over its completed launches. In a gain, which
compares a job with itself, the batch cancels out. The paper counts "images processed per second" (Sec. IV-A) and says
that contention increases the latency, "which results in degraded overall throughput" (Sec. II-B). Requests served per
second of the whole time do not have this property: a job that waits for its batches serves those that arrive, at any
latency. The paper's Fig. 8 could then not show a gain for most jobs. Requests served are an additional line, and the
value of the bench's objective ``colocation``.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from statistics import fmean
from typing import NamedTuple

from bench.judging.judge import judge
from bench.ledger.row import Row
from reports.charts.groups import side_by_side
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, swatch, with_legend
from reports.charts.palette import QUIET, scheduler_look
from reports.claim import NOTHING_PUBLISHED, Claim, Values, not_modelled, query
from reports.figure import Figure
from reports.need import Need, NothingToDrawError
from reports.runs import Runs, the_instance
from reports.selection import figure_rows, missing_notes

OURS, OTHERS = "mediator", ("horus", "bin-packing")
ALL_SCHEDULERS = (OURS, *OTHERS)
FORTY_JOBS = Need("mediator-40", ALL_SCHEDULERS, quick="mediator-40-s0")
PAIRED_JOBS = Need("mediator-pairs", ALL_SCHEDULERS, quick="mediator-pairs-s0")

Rates = Mapping[str, float]
"""Requests per second by job."""


class JobThroughputs(NamedTuple):
    """Throughput of jobs under a plan.

    ``processed`` has requests per second of processing time: a job's largest batch divided by its mean launch time.
    ``served`` has requests served per second of the whole time.
    """

    processed: Rates
    served: Rates


Plans = Mapping[str, JobThroughputs]
"""Throughputs by scheduler."""

_MEASURES: tuple[tuple[str, Callable[[JobThroughputs], Rates]], ...] = (
    ("Gain in throughput (%)", lambda jobs: jobs.processed),
    ("More requests served (%)", lambda jobs: jobs.served),
)

_THROUGHPUT_HEIGHT_IN = 4.0


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


def _rows(need: Need, scheduler: str, runs: Runs) -> list[Row]:
    return runs.rows(Need(need.instances, (scheduler,)))


def _improvements_by_mix(
    runs: Runs, need: Need, other: str, rates: Callable[[JobThroughputs], Rates]
) -> list[list[float]]:
    """Return the improvement of each job over another scheduler in percent, by mix."""
    return [
        list(improvement_pct(rates(_job_throughputs(ours)), rates(_job_throughputs(theirs))).values())
        for ours, theirs in zip(_rows(need, OURS, runs), _rows(need, other, runs), strict=True)
    ]


@query
def _improvements(runs: Runs, need: Need, other: str, rates: Callable[[JobThroughputs], Rates]) -> Values:
    """Return the improvement of the jobs in percent: means over mixes of the mean and of the largest."""
    improvements_by_mix = _improvements_by_mix(runs, need, other, rates)
    return fmean(map(fmean, improvements_by_mix)), fmean(map(max, improvements_by_mix))


_THROUGHPUTS_BY_KEY: dict[str, JobThroughputs] = {}
"""Throughputs by key of the run, kept because several claims need the throughputs of one run."""


def _job_throughputs(row: Row) -> JobThroughputs:
    if row.key not in _THROUGHPUTS_BY_KEY:
        _THROUGHPUTS_BY_KEY[row.key] = job_throughputs(row)
    return _THROUGHPUTS_BY_KEY[row.key]


@query
def _improved_pct(runs: Runs, need: Need) -> Values:
    """Return the percentage of jobs that are processed faster than under each other scheduler, over all mixes."""
    by_other = [_improvements_by_mix(runs, need, other, lambda jobs: jobs.processed) for other in OTHERS]
    return tuple(100.0 * fmean(gain > 0.0 for mix in mixes for gain in mix) for mixes in by_other)


@query
def _mean_improvements(runs: Runs, need: Need) -> Values:
    """Return the mean gain in requests per second of processing time over each other scheduler, in percent."""
    by_other = [_improvements_by_mix(runs, need, other, lambda jobs: jobs.processed) for other in OTHERS]
    return tuple(fmean(map(fmean, mixes)) for mixes in by_other)


@query
def _mean_improvements_at_equal_gpus(runs: Runs, need: Need) -> Values:
    """Return these means over the mixes for which every scheduler takes as many GPUs, preceded by their number."""
    gpus_by_mix = zip(*([row.gpus_used for row in _rows(need, name, runs)] for name in ALL_SCHEDULERS), strict=True)
    equal = [len(set(gpus)) == 1 for gpus in gpus_by_mix]
    by_other = [_improvements_by_mix(runs, need, other, lambda jobs: jobs.processed) for other in OTHERS]
    return sum(equal), *(fmean(fmean(mix) for mix in compress(mixes, equal)) for mixes in by_other)


@query
def means(runs: Runs, need: Need, quantity: Callable[[Row], float | None]) -> Values:
    """Return the mean of a quantity over the mixes, by scheduler."""
    return tuple(
        fmean(value for row in _rows(need, name, runs) if (value := quantity(row)) is not None)
        for name in ALL_SCHEDULERS
    )


@query
def lead_per_gpu(runs: Runs, need: Need) -> Values:
    """Return the lead of ``mediator`` over each other scheduler in percent, by requests per GPU over all mixes."""
    served_per_gpu = {
        name: sum(sum(_job_throughputs(row).served.values()) for row in _rows(need, name, runs))
        / sum(row.gpus_used or 0 for row in _rows(need, name, runs))
        for name in ALL_SCHEDULERS
    }
    return tuple(100.0 * (served_per_gpu[OURS] / served_per_gpu[other] - 1.0) for other in OTHERS)


NO_CPU_REASON = "no measurements of these DNNs on a CPU server are published"


def _gains(need: Need, suite: str, reason: str, not_comparable: str = "") -> tuple[Claim, ...]:
    """Return the claims on gains in throughput, with the runs of one suite.

    ``not_comparable`` is the reason why the claims in words cannot be compared.
    """
    gains = tuple(
        Claim(
            what=f"Fig. 8 (GPU): gain in a job's throughput over {other}, mean and largest; {suite}",
            paper=published,
            ours=_improvements(need, other, lambda jobs: jobs.processed),
            form="{:+.3g} %, {:+.0f} %",
            within=0.1,
            reason=reason,
            note="`horus` is a stand-in" if other == "horus" else "",
        )
        for other, published in zip(OTHERS, ((21, 108), (31, 79)), strict=True)
    )
    served = tuple(
        Claim(
            what=f"– the same for requests served per second of the whole time, over {other}",
            paper=NOTHING_PUBLISHED,
            ours=_improvements(need, other, lambda jobs: jobs.served),
            form="{:+.3g} %, {:+.0f} %",
        )
        for other in OTHERS
    )
    at_equal_gpus = Claim(
        what=f"– mixes for which all take as many GPUs, mean gain over {OTHERS[0]} and over {OTHERS[1]}",
        paper=NOTHING_PUBLISHED,
        ours=_mean_improvements_at_equal_gpus(need),
        form="{} mixes, {:+.3g} %, {:+.3g} %",
        note="the paper prints no number of GPUs",
    )
    order = Claim(
        what=f"Fig. 8 (GPU): mean gain over {OTHERS[0]} and over {OTHERS[1]}; {suite}",
        paper="larger over bin packing, which ignores contention",
        ours=_mean_improvements(need),
        form="{:+.3g} %, {:+.3g} %",
        supports=lambda over_horus, over_packing: over_packing > over_horus,
        criterion="larger over bin-packing",
        not_comparable=not_comparable,
        reason=reason,
    )
    most_jobs = Claim(
        what=f"Fig. 8 (GPU): part of the jobs that gain over {OTHERS[0]} and over {OTHERS[1]}; {suite}",
        paper="most jobs",
        ours=_improved_pct(need),
        form="{:.0f} %, {:.0f} %",
        supports=lambda *parts: min(parts) > 50.0,
        criterion="more than half over both",
        not_comparable=not_comparable,
        reason=reason,
    )
    return (*gains, *served, at_equal_gpus, order, most_jobs)


FIG8 = Figure(
    name="mediator-fig8",
    title="Throughput of MediatorDNN's jobs compared with Horus and bin packing",
    paper="MediatorDNN, Fig. 8",
    shows="On a GPU the throughput of the jobs is 21 % higher than under Horus and 31 % higher than under bin packing "
    "on average, at most 108 % and 79 %; for some jobs it is lower.",
    look_for="Above, the throughput: requests per second of processing time. It is higher on average in each "
    "mix, though not for every job. Below, requests served per second of the whole time: most jobs serve "
    "the same number, since waiting requests are served later.",
    cost="15 runs, about 10 s",
    needs=(FORTY_JOBS,),
    draws=_draw_improvements,
    claims=(
        *_gains(
            FORTY_JOBS,
            "launches take turns",
            "the model of contention decides: where launches run at the same time, as slowed as in measured pairs, the "
            "gains are those of the rows below",
            "our model of contention decides: in measured pairs it is otherwise, see the rows below",
        ),
        Claim(
            what="Fig. 8 (CPU): gain in a job's throughput over horus and over bin-packing, mean and largest of each",
            paper="+10 %, +30 %; +22 %, +55 %",
            ours=not_modelled,
            not_comparable=NO_CPU_REASON,
        ),
    ),
)

FIG8_PAIRS = Figure(
    name="mediator-fig8-pairs",
    title="The same with slowdowns fitted to measured pairs",
    paper="MediatorDNN, Fig. 8",
    shows=FIG8.shows,
    look_for="Launches run at the same time and are as slow beside each other as CNNs in pairs on an A100. The gains "
    "are smaller than where launches take turns: a neighbour slows a launch down by less. Every "
    "job serves what arrives.",
    cost="15 runs, about 10 s",
    needs=(PAIRED_JOBS,),
    draws=_draw_improvements,
    claims=_gains(
        PAIRED_JOBS,
        "measured pairs",
        "the model of contention decides: where launches take turns, the gains are those of the rows above",
    ),
)

_NO_POWER_REASON = "power is published for one of these DNNs only, ResNet-50 on a V100"

TABLE5_CLAIMS = (
    *(
        Claim(
            what=f"Table V ({machine}): gain in throughput per watt over horus and over bin-packing, mean and largest",
            paper=paper,
            ours=not_modelled,
            not_comparable=reason,
        )
        for machine, paper, reason in (
            ("GPU", "+8.05 %, +276.98 %; +7.42 %, +100.80 %", _NO_POWER_REASON),
            ("CPU", "+4.74 %, +105.68 %; +17.06 %, +244.09 %", NO_CPU_REASON),
        )
    ),
    Claim(
        what="Sec. IV-C: power under MediatorDNN's plans beside those of Horus and bin packing",
        paper='"it increases the power consumption"',
        ours=not_modelled,
        not_comparable=_NO_POWER_REASON,
    ),
)
"""Claims on Table V, which is not drawn, and on power."""

FIGURES = (FIG8, FIG8_PAIRS)

"""MediatorDNN, the GPU parts of Fig. 2, 5 and 6: the forty jobs one by one."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from heuristics.mediator.utilisation import largest_batch, of_jobs
from instances.arrays import Floats
from instances.colocation import Sample, draw_launches, run_alone
from instances.suites.mediator import DNNS
from reports.charts.palette import BLACK, DEEP_BLUE, ORANGE, SERIES
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import NOTHING_PUBLISHED, TAKEN_FROM_PAPER, Claim, Values, not_modelled, query
from reports.figure import Figure
from reports.papers.mediator_setup import FORTY, PAIRED, STAND_INS_NOTE, STAND_INS_OF, gaps_and_batches, view
from reports.papers.mediator_throughput import NO_CPU_REASON
from reports.runs import Runs

FLUCTUATING = (3, 10, 13)
"""Numbers of the jobs of Fig. 2, which have the workloads of Table I."""

REPRESENTATIVE = (1, 12, 19, 30, 40)
"""Numbers of the jobs of Fig. 5, chosen from Table III; the paper does not number its five jobs."""


class JobUtilisation(NamedTuple):
    """Utilisation of each job alone: mean and deviation of one-second values, in percent of a GPU.

    Both arrays have shape (jobs,).
    """

    mean_pct: Floats
    deviation_pct: Floats


def job_utilisation(instance: str = FORTY) -> JobUtilisation:
    """Return the utilisation of the jobs of an instance in MediatorDNN's profiling (Fig. 6)."""
    utilisation = of_jobs(view(instance), view(instance).instance.jobs)
    return JobUtilisation(100.0 * utilisation.mean, 100.0 * utilisation.deviation)


def deviation_ratio(utilisation: JobUtilisation, tolerance: float = 0.05) -> float:
    """Return the largest ratio of the deviations of two jobs with similar means.

    Means are similar if they differ by at most the fraction ``tolerance`` of the larger one.
    """
    mean, deviation = utilisation
    similar = np.abs(mean[:, None] - mean) <= tolerance * np.maximum(mean[:, None], mean)
    return float((deviation[:, None] / deviation)[similar].max())


def _deviations_of_three(_: Runs) -> Values:
    """Return the deviations of the utilisation by the jobs of Fig. 2 over its means, in percent, on both instances."""
    return tuple(
        100.0 * float(deviation_pct[number - 1] / mean_pct[number - 1])
        for mean_pct, deviation_pct in map(job_utilisation, STAND_INS_OF)
        for number in FLUCTUATING
    )


@query
def _fluctuation(_: Runs, instance: str) -> Values:
    """Return the deviations of the utilisation of a GPU by the jobs of Fig. 2, in points."""
    return tuple(job_utilisation(instance).deviation_pct[number - 1] for number in FLUCTUATING)


def _variation(_: Runs) -> Values:
    """Return least and largest mean batch and mean gap of the jobs of Fig. 5, and the same of deviations over means."""
    gaps, batches = zip(*map(gaps_and_batches, REPRESENTATIVE), strict=True)
    columns = (batches, gaps)
    means = [[mean for mean, _ in column] for column in columns]
    variations = [[100.0 * deviation / mean for mean, deviation in column] for column in columns]
    return tuple(function(column) for column in (*means, *variations) for function in (min, max))


def largest_metric_ratio() -> float:
    """Return the largest ratio of a profiled metric of two of the forty jobs; metrics that a job lacks do not count."""
    metrics = of_jobs(view(), view().instance.jobs).metrics
    positive = metrics[:, metrics.min(axis=0) > 0.0]
    return float((positive.max(axis=0) / positive.min(axis=0)).max())


def over_time_pct(number: int) -> Floats:
    """Return the utilisation of a GPU in percent in each second, by the job with this number alone (Fig. 2)."""
    gpu_view = view()
    job = gpu_view.instance.jobs[number - 1]
    model = list(gpu_view.gpu.models).index(job.model)
    largest_launch_batch = largest_batch(gpu_view.gpu, job)
    launches = draw_launches(gpu_view.tables, model, job, largest_launch_batch, gpu_view.instance.seed, Sample.PROFILE)
    return np.asarray(100.0 * run_alone(gpu_view.tables, [launches])[0])


def _distribution(values: Sequence[float], weights: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the steps of a cumulative distribution: the sorted values, and the percentage of the weight up to each.

    The smallest value comes twice; its first percentage is 0.
    """
    order = np.argsort(values)
    cumulative = np.concatenate([[0.0], np.cumsum(np.array(weights)[order])])
    sorted_values = np.array(values, dtype=np.float64)[order]
    return np.concatenate([sorted_values[:1], sorted_values]), 100.0 * cumulative / cumulative[-1]


def _fig2() -> Sequence[Panel]:
    panels = []
    for number in FLUCTUATING:
        values = over_time_pct(number)
        curve = Curve("utilisation of a GPU alone", range(len(values)), values, {"color": DEEP_BLUE, "linewidth": 0.7})
        title = f"{DNNS[number - 1]}: {values.mean():.1f} ± {values.std():.1f} %"
        panels.append(Panel(title, [curve], {"xlabel": "Time (s)", "ylabel": "Utilisation (%)", "ylim": (0.0, 80.0)}))
    return panels


def _fig5() -> Sequence[Panel]:
    styles = dict(zip(REPRESENTATIVE, SERIES, strict=False))
    steps = {"drawstyle": "steps-post"}
    batches, gaps = [], []
    for number, style in styles.items():
        job = view().instance.jobs[number - 1]
        label = f"job {number}, {DNNS[number - 1]}"
        batches.append(Curve(label, *_distribution(job.batches, job.batch_weights), {**style.unmarked, **steps}))
        gaps.append(
            Curve(label, *_distribution(job.interarrival_ms, job.interarrival_weights), {**style.unmarked, **steps})
        )
    axes = {"ylabel": "Part at or below (%)", "ylim": (0.0, 102.0)}
    return [
        Panel("", batches, {**axes, "xlabel": "Batch size", "xscale": "log"}),
        Panel("", gaps, {**axes, "xlabel": "Time between batches (ms)"}),
    ]


def _fig6() -> Sequence[Panel]:
    mean, deviation = job_utilisation()
    jobs = range(1, len(mean) + 1)
    ranges = [
        Curve(
            "± standard deviation",
            (job, job),
            (mean_pct - deviation_pct, mean_pct + deviation_pct),
            {"color": ORANGE, "linewidth": 2.0},
        )
        for job, mean_pct, deviation_pct in zip(jobs, mean, deviation, strict=True)
    ]
    means = Curve("mean", jobs, mean, {"color": BLACK, "marker": "o", "linestyle": ""})
    axes = {"xlabel": "Job", "ylabel": "Utilisation of a GPU (%)", "xlim": (0.0, 41.0), "xticks": range(4, 41, 4)}
    return [Panel("", [*ranges, means], axes)]


FIG2 = Figure(
    name="mediator-fig2",
    title="Utilisation of a GPU under a fluctuating workload",
    paper="MediatorDNN, Fig. 2, GPU",
    shows="The utilisation of each DNN varies; the extent depends on the DNN and on the spread of its batches.",
    look_for="The batches of Inception-V3 vary little, and so does its utilisation. That of NASNet-Large varies most. "
    "The batches of PNASNet-Mobile vary even more, but its stand-in takes as long at every batch, bound by launches.",
    draws=partial(draw_panels, panels=_fig2, notes=lambda: [STAND_INS_NOTE]),
    claims=(
        Claim(
            what="Fig. 2 (CPU): fluctuation of the utilisation by Inception-V3, NASNet-Large and PNASNet-Mobile",
            paper="least for Inception-V3, and its largest value is below that of NASNet-Large",
            ours=not_modelled,
            not_comparable=NO_CPU_REASON,
        ),
        Claim(
            what="Fig. 2 (GPU): deviation of the utilisation over its mean, by the same three; V100, then A100",
            paper="significant for each, on both platforms",
            ours=_deviations_of_three,
            form="{:.1f} %, {:.1f} %, {:.1f} %; {:.1f} %, {:.1f} %, {:.1f} %",
            not_comparable="the text does not say how much is significant; on the V100, a batch above the largest with "
            "figures is several launches, which adds to the variation",
        ),
        Claim(
            what="– deviation in points, by the same three; V100",
            paper="least for Inception-V3, whose batches vary least",
            ours=_fluctuation(FORTY),
            form="{:.1f}, {:.1f}, {:.1f}",
            supports=lambda first, *others: first < min(others),
            criterion="least for Inception-V3",
            reason="the stand-in for PNASNet-Mobile takes as long at every batch, bound by launches; on the A100, "
            "where it does not, the order is the paper's: see the next line",
            note="the paper states the order for the CPU",
        ),
        Claim(
            what="– the same, on the A100 of `mediator-pairs`",
            paper=NOTHING_PUBLISHED,
            ours=_fluctuation(PAIRED),
            form="{:.1f}, {:.1f}, {:.1f}",
        ),
        Claim(
            what="– largest utilisation of the GPU in one second, by the same three; V100",
            paper=NOTHING_PUBLISHED,
            ours=lambda _: tuple(float(over_time_pct(number).max()) for number in FLUCTUATING),
            form="{:.1f} %, {:.1f} %, {:.1f} %",
        ),
    ),
)

FIG5 = Figure(
    name="mediator-fig5",
    title="Distributions of batch sizes and of the time between batches",
    paper="MediatorDNN, Fig. 5",
    shows="Batch sizes and gaps of five representative jobs differ from job to job, and vary within each.",
    look_for="Means are those of Table III. Deviations relative to the means are drawn from the range of Table I, "
    "since the paper states them for three jobs only.",
    draws=partial(draw_panels, panels=_fig5),
    claims=(
        Claim(
            what="Fig. 5: mean batches and mean gaps of five jobs, least and largest; deviations of batches and of "
            "gaps over their means, least and largest",
            paper="significant variation within each job and across jobs",
            ours=_variation,
            form="{:.0f} to {:.0f}, {:.0f} to {:.0f} ms; {:.0f} to {:.0f} %, {:.1f} to {:.1f} %",
            not_comparable=TAKEN_FROM_PAPER,
            note="means are those of Table III, and deviations relative to them are drawn from the range of Table I; "
            "the paper does not number its five jobs, so we chose them",
        ),
    ),
)

FIG6 = Figure(
    name="mediator-fig6",
    title="Mean and deviation of the utilisation of the forty jobs",
    paper="MediatorDNN, Fig. 6 b",
    shows="Both differ from job to job; jobs with nearly the same mean have quite different deviations.",
    look_for="PNASNet-Large (job 12) keeps a GPU busiest. Deviations of jobs whose means are within 5 % of each other "
    "differ by up to a factor of four.",
    draws=partial(draw_panels, panels=_fig6, notes=lambda: [STAND_INS_NOTE]),
    claims=(
        Claim(
            what="Fig. 6 (GPU): largest ratio of the deviations of two jobs with equal mean utilisation",
            paper="equal means, unequal deviations",
            ours=lambda _: (deviation_ratio(job_utilisation()),),
            form="{:.1f} times",
            supports=lambda ratio: ratio >= 2.0,
            criterion="at least twice",
            not_comparable="most of the deviations are drawn: the paper states those of three jobs",
            note="equal: means within a twentieth of each other",
        ),
        Claim(
            what="Fig. 6, 7 (CPU), Table IV: variation on a CPU against a GPU; metrics of the jobs on a CPU",
            paper="more variation on the GPU; metrics differ by up to four orders of magnitude",
            ours=not_modelled,
            not_comparable=NO_CPU_REASON,
        ),
        Claim(
            what="– largest ratio of a metric of two jobs on the GPU",
            paper=NOTHING_PUBLISHED,
            ours=lambda _: (largest_metric_ratio(),),
            form="{:.1f} times",
            note="metrics are utilisations of L2 and DRAM; those of Table IV are counts",
        ),
    ),
)

FIGURES = (FIG2, FIG5, FIG6)

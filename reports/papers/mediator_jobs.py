"""MediatorDNN, the GPU parts of Fig. 1, 2, 5 and 6: contention, and the forty jobs one by one."""

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from heuristics.mediator.utilisation import largest_batch, of_jobs
from instances.arrays import Floats
from instances.colocation import Launches, Sample, draw_launches, run_alone, run_together
from instances.performance import performance_model
from instances.suites import suite
from instances.suites.mediator import DNNS, PAIRED_STAND_INS, STAND_INS
from instances.view import View
from reports.charts.palette import BLACK, DEEP_BLUE, ORANGE, SERIES, STAR
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.papers.mediator_throughput import NO_CPU_REASON, not_modelled
from reports.runs import Runs

INSTANCE = "mediator-40-s0"

STAND_INS_OF = {INSTANCE: STAND_INS, "mediator-pairs-s0": PAIRED_STAND_INS}
"""Stand-ins of the DNNs on the two instances of Fig. 1: launches take turns, or run as measured in pairs."""

FIRST_DNN, OTHER_DNNS = "Inc-V4", ("MobV1-1", "Inc-V1", "Inc-V2", "ResV2-50", "ResV2-101")
"""DNNs of Fig. 1: the first DNN runs beside each of the others."""

PAPER_GROWTH_PCT = {"MobV1-1": (26.0, 1.5), "ResV2-101": (84.0, 69.0)}
"""Slowdown of the first DNN and of the other in percent, by the other; only as stated in the text (Sec. II-A)."""

FLUCTUATING = (3, 10, 13)
"""Numbers of the jobs of Fig. 2, which have the workloads of Table I."""

REPRESENTATIVE = (1, 12, 19, 30, 40)
"""Numbers of the jobs of Fig. 5, chosen from Table III; the paper does not number its five jobs."""

_LAUNCHES = 200_000
"""Number of launches of a DNN without pauses; no DNN completes as many in the simulated time."""


class JobUtilisation(NamedTuple):
    """Utilisation of each of the forty jobs alone: mean and deviation of one-second values, in percent of a GPU.

    Both arrays have shape (40,).
    """

    mean_pct: Floats
    deviation_pct: Floats


@cache
def _view(name: str = INSTANCE) -> View:
    (instance,) = (instance for instance in suite(name.rpartition("-")[0]).build() if instance.name == name)
    return View.of(instance, instance.gpus[0].type)


def growth_pct(other: str, instance: str = INSTANCE, batch: int = 1) -> tuple[float, float]:
    """Return the slowdowns of Inception-V4 and another DNN beside each other, in percent.

    Both run batches of ``batch`` without pauses, with the stand-ins and under the contention of an instance.
    """
    view = _view(instance)
    tables, models = view.tables, list(view.gpu.models)
    concurrent = performance_model(view.instance.performance_model).concurrent

    def launches_of(dnn: str) -> Launches:
        model = models.index(STAND_INS_OF[instance][dnn])
        return Launches(model, np.zeros(_LAUNCHES), np.full(_LAUNCHES, batch, dtype=np.int64))

    joint_run = run_together(tables, [launches_of(FIRST_DNN), launches_of(other)], concurrent)
    growths = []
    for position, dnn in enumerate((FIRST_DNN, other)):
        alone_run = run_together(tables, [launches_of(dnn)])
        alone_ms = alone_run.on_gpu_ms[0] / alone_run.launches[0]
        growths.append(100.0 * float(joint_run.on_gpu_ms[position] / joint_run.launches[position] / alone_ms - 1.0))
    return growths[0], growths[1]


def job_utilisation() -> JobUtilisation:
    """Return the utilisation of the forty jobs in MediatorDNN's profiling (Fig. 6)."""
    utilisation = of_jobs(_view(), _view().instance.jobs)
    return JobUtilisation(100.0 * utilisation.mean, 100.0 * utilisation.deviation)


def deviation_ratio(utilisation: JobUtilisation, tolerance: float = 0.05) -> float:
    """Return the largest ratio of the deviations of two jobs with similar means.

    Means are similar if they differ by at most the fraction ``tolerance`` of the larger one.
    """
    mean, deviation = utilisation
    similar = np.abs(mean[:, None] - mean) <= tolerance * np.maximum(mean[:, None], mean)
    return float((deviation[:, None] / deviation)[similar].max())


def largest_metric_ratio() -> float:
    """Return the largest ratio of a profiled metric of two of the forty jobs; metrics that a job lacks do not count."""
    metrics = of_jobs(_view(), _view().instance.jobs).metrics
    positive = metrics[:, metrics.min(axis=0) > 0.0]
    return float((positive.max(axis=0) / positive.min(axis=0)).max())


def over_time_pct(number: int) -> Floats:
    """Return the utilisation of a GPU in percent in each second, by the job with this number alone (Fig. 2)."""
    view = _view()
    job = view.instance.jobs[number - 1]
    model = list(view.gpu.models).index(job.model)
    largest_launch_batch = largest_batch(view.gpu, job)
    launches = draw_launches(view.tables, model, job, largest_launch_batch, view.instance.seed, Sample.PROFILE)
    return np.asarray(100.0 * run_alone(view.tables, [launches])[0])


def _distribution(values: Sequence[float], weights: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the steps of a cumulative distribution: the sorted values, and the percentage of the weight up to each.

    The smallest value comes twice; its first percentage is 0.
    """
    order = np.argsort(values)
    cumulative = np.concatenate([[0.0], np.cumsum(np.array(weights)[order])])
    sorted_values = np.array(values, dtype=np.float64)[order]
    return np.concatenate([sorted_values[:1], sorted_values]), 100.0 * cumulative / cumulative[-1]


def _fig1() -> Sequence[Panel]:
    turn_styles = {
        FIRST_DNN: {"color": DEEP_BLUE, "marker": "o"},
        "the other": {"color": ORANGE, "marker": "s", "markerfacecolor": "white"},
    }
    pair_styles = {
        FIRST_DNN: {"color": DEEP_BLUE, "marker": "^"},
        "the other": {"color": ORANGE, "marker": "v", "markerfacecolor": "white"},
    }
    paper_styles = {FIRST_DNN: STAR, "the other": {**STAR, "markerfacecolor": "white"}}
    by_turns, in_pairs = ({other: growth_pct(other, name) for other in OTHER_DNNS} for name in STAND_INS_OF)
    curves = [
        Curve(
            f"{dnn}{suffix}",
            [OTHER_DNNS.index(other) + (-0.12, 0.12)[index] for other in growths_of],
            [growths_of_pair[index] for growths_of_pair in growths_of.values()],
            {"linestyle": "", "markersize": 5, **styles[dnn]},
        )
        for growths_of, styles, suffix in (
            (by_turns, turn_styles, ", by turns"),
            (in_pairs, pair_styles, ", measured pairs"),
            (PAPER_GROWTH_PCT, paper_styles, ", the paper"),
        )
        for index, dnn in enumerate(styles)  # the first DNN, then the other
    ]
    positions = list(range(len(OTHER_DNNS)))
    axes = {"xticks": positions, "xticklabels": OTHER_DNNS, "xlim": (-0.5, len(OTHER_DNNS) - 0.5), "ylim": (0.0, 130.0)}
    return [Panel("", curves, {**axes, "xlabel": f"Beside {FIRST_DNN}", "ylabel": "Slower than alone (%)"})]


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
        job = _view().instance.jobs[number - 1]
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


_STAND_INS = "Models of the catalogue stand in for some DNNs, on a V100: `bench show mediator-40-s0`."
_PAIRED_NOTE = "Those of measured pairs are on an A100: `bench show mediator-pairs-s0`."


@query
def _growth(_: Runs, other: str, instance: str, batch: int) -> Values:
    return growth_pct(other, instance, batch)


def _growth_claims(other: str) -> tuple[Claim, ...]:
    """Return the claims on the slowdowns beside Inception-V4."""

    def claim(suffix: str, instance: str, batch: int, paper: Values | str, reason: str = "") -> Claim:
        what = f"Fig. 1 (GPU): slowdown of Inception-V4 and of {other} side by side; {suffix}"
        ours = _growth(other, instance, batch)
        return Claim(what=what, paper=paper, ours=ours, form="{:.3g} %, {:.3g} %", within=0.1, reason=reason)

    by_turns, in_pairs = STAND_INS_OF
    published = PAPER_GROWTH_PCT[other]
    return (
        claim("launches take turns", by_turns, 1, published, "two launches that take turns both take twice as long"),
        claim("measured pairs", in_pairs, 1, published, _PAIRS_REASON[other]),
        claim("measured pairs, batches of 32", in_pairs, 32, NOTHING_PUBLISHED),
    )


@query
def _growth_range(_: Runs, instance: str, batch: int) -> Values:
    """Return the smallest and the largest slowdown of Inception-V4 beside one of the other DNNs, in percent."""
    growths = [growth_pct(other, instance, batch)[0] for other in OTHER_DNNS]
    return min(growths), max(growths)


def _growth_range_claims() -> tuple[Claim, ...]:
    """Return the claims on the slowdowns of Inception-V4 over all neighbours."""

    def claim(suffix: str, instance: str, batch: int, reason: str) -> Claim:
        return Claim(
            what=f"Fig. 1 (GPU): least and largest slowdown of Inception-V4, of five neighbours; {suffix}",
            paper="depends on the neighbour: 26 % and 84 % are stated",
            ours=_growth_range(instance, batch),
            form="{:.3g} %, {:.3g} %",
            supports=lambda least, largest: largest >= 2.0 * least,
            criterion="one at least twice the other",
            reason=reason,
        )

    by_turns, in_pairs = STAND_INS_OF
    average = "its stand-in was not measured in pairs and has the average slowdown of the measured models"
    return (
        claim("launches take turns", by_turns, 1, "two launches that take turns both take twice as long"),
        claim("measured pairs", in_pairs, 1, f"{average}; larger batches do not change it: see the next line"),
        claim("measured pairs, batches of 32", in_pairs, 32, f"{average}; the batch does not change it"),
        Claim(
            what="Fig. 1 (CPU): slowdown of Inception-V4 and of its neighbours",
            paper="not that of the GPU",
            ours=not_modelled,
            not_comparable=NO_CPU_REASON,
        ),
    )


_PAIRS_REASON = {
    "MobV1-1": "the stand-in for MobV1-1 was measured only as a neighbour: its own slowdown is an average of others",
    "ResV2-101": 'the batch decides, and the paper states none beside "time needed to process one input": see the next '
    "line",
}

FIG1 = Figure(
    name="mediator-fig1",
    title="Slowdown of DNNs beside Inception-V4",
    paper="MediatorDNN, Fig. 1 c, d",
    shows="On a GPU Inception-V4 and MobileNetV1-1 become 26 and 1.5 % slower side by side, Inception-V4 and "
    "ResNetV2-101 84 and 69 %.",
    look_for="Two DNNs that take turns without a pause take twice as long each, whichever they are. In measured pairs "
    "they run at the same time and are slowed by less, each to its own extent.",
    draws=partial(draw_panels, panels=_fig1, notes=lambda: [_STAND_INS, _PAIRED_NOTE]),
    claims=(*(claim for other in PAPER_GROWTH_PCT for claim in _growth_claims(other)), *_growth_range_claims()),
)

FIG2 = Figure(
    name="mediator-fig2",
    title="Utilisation of a GPU under a fluctuating workload",
    paper="MediatorDNN, Fig. 2, GPU",
    shows="The utilisation of each DNN varies; the extent depends on the DNN and on the spread of its batches.",
    look_for="The batches of Inception-V3 vary little, and so does its utilisation. That of NASNet-Large varies most. "
    "The batches of PNASNet-Mobile vary even more, but its stand-in takes as long at every batch, bound by launches.",
    draws=partial(draw_panels, panels=_fig2, notes=lambda: [_STAND_INS]),
    claims=(
        Claim(
            what="Fig. 2 (CPU): fluctuation of the utilisation by Inception-V3, NASNet-Large and PNASNet-Mobile",
            paper="least for Inception-V3, and its largest value is below that of NASNet-Large",
            ours=not_modelled,
            not_comparable=NO_CPU_REASON,
        ),
        Claim(
            what="– deviation of the utilisation of the GPU by the same three, in points",
            paper=NOTHING_PUBLISHED,
            ours=lambda _: tuple(job_utilisation().deviation_pct[number - 1] for number in FLUCTUATING),
            form="{:.1f}, {:.1f}, {:.1f}",
        ),
        Claim(
            what="– largest utilisation of the GPU in one second, by the same three",
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
    look_for="Means are those of Table III. Deviations are drawn from the range of Table I, since the paper states "
    "them for three jobs only.",
    draws=partial(draw_panels, panels=_fig5),
)

FIG6 = Figure(
    name="mediator-fig6",
    title="Mean and deviation of the utilisation of the forty jobs",
    paper="MediatorDNN, Fig. 6 b",
    shows="Both differ from job to job; jobs with nearly the same mean have quite different deviations.",
    look_for="PNASNet-Large (job 12) keeps a GPU busiest. Deviations of jobs whose means are within 5 % of each other "
    "differ by up to a factor of four.",
    draws=partial(draw_panels, panels=_fig6, notes=lambda: [_STAND_INS]),
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

FIGURES = (FIG1, FIG2, FIG5, FIG6)

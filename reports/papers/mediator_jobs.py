"""MediatorDNN, the GPU parts of Fig. 1, 2, 5 and 6: contention, and the forty jobs one by one."""

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from heuristics.mediator.utilisation import largest_batch, of_jobs
from instances.arrays import Floats
from instances.colocation import Launches, Sample, draw_launches, run_alone, run_together
from instances.suites import suite
from instances.suites.mediator import DNNS, STAND_INS
from instances.view import View
from reports.charts.palette import BLACK, DEEP_BLUE, ORANGE, SERIES, STAR
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import Claim, Values, query
from reports.figure import Figure
from reports.runs import Runs

INSTANCE = "mediator-40-s0"

FIRST_DNN, OTHER_DNNS = "Inc-V4", ("MobV1-1", "Inc-V1", "Inc-V2", "ResV2-50", "ResV2-101")
"""DNNs of Fig. 1: the first DNN runs beside each of the others."""

PAPER_GROWTH_PCT = {"MobV1-1": (26.0, 1.5), "ResV2-101": (84.0, 69.0)}
"""Slowdown of the first DNN and of the other in percent, by the other; only as stated in the text (Sec. II-A)."""

FLUCTUATING = (3, 10, 13)
"""Numbers of the jobs of Fig. 2, which have the workloads of Table I."""

REPRESENTATIVE = (1, 12, 19, 30, 40)
"""Numbers of the jobs of Fig. 5, chosen from Table III; the paper does not number its five jobs."""

_LAUNCHES = 20_000
"""Number of launches of a DNN without pauses; no DNN completes as many in the simulated time."""


class JobUtilisation(NamedTuple):
    """Utilisation of each of the forty jobs alone: mean and deviation of one-second values, in percent of a GPU.

    Both arrays have shape (40,).
    """

    mean_pct: Floats
    deviation_pct: Floats


@cache
def _view() -> View:
    problem = next(instance for instance in suite("mediator-40").build() if instance.name == INSTANCE)
    return View.of(problem, problem.gpus[0].type)


def growth_pct(other: str) -> tuple[float, float]:
    """Return the slowdowns of Inception-V4 and another DNN beside each other, in percent.

    Both run batches of one without pauses.
    """
    tables, models = _view().tables, list(_view().gpu.models)

    def launches_of(dnn: str) -> Launches:
        model = models.index(STAND_INS[dnn])
        return Launches(model, np.zeros(_LAUNCHES), np.ones(_LAUNCHES, dtype=np.int64))

    joint_run = run_together(tables, [launches_of(FIRST_DNN), launches_of(other)])
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
    our_styles = {
        FIRST_DNN: {"color": DEEP_BLUE, "marker": "o"},
        "the other": {"color": ORANGE, "marker": "s", "markerfacecolor": "white"},
    }
    paper_styles = {FIRST_DNN: STAR, "the other": {**STAR, "markerfacecolor": "white"}}
    our_growths, published_growths = {other: growth_pct(other) for other in OTHER_DNNS}, PAPER_GROWTH_PCT
    curves = [
        Curve(
            f"{dnn}{suffix}",
            [OTHER_DNNS.index(other) + (0.12, -0.12)[dnn == FIRST_DNN] for other in growths_of],
            [growths_of_pair[dnn != FIRST_DNN] for growths_of_pair in growths_of.values()],
            {"linestyle": "", "markersize": 5, **styles[dnn]},
        )
        for growths_of, styles, suffix in (
            (our_growths, our_styles, ""),
            (published_growths, paper_styles, ", the paper"),
        )
        for dnn in styles
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


_STAND_INS = "Models of the catalogue stand in for the DNNs, on an RTX 2080 Ti: `bench show mediator-40-s0`."


@query
def _growth(_: Runs, other: str) -> Values:
    return growth_pct(other)


FIG1 = Figure(
    name="mediator-fig1",
    title="Slowdown of DNNs beside Inception-V4",
    paper="MediatorDNN, Fig. 1 c, d",
    shows="On a GPU Inception-V4 and MobileNetV1-1 become 26 and 1.5 % slower side by side, Inception-V4 and "
    "ResNetV2-101 84 and 69 %.",
    look_for="The co-location model here does not distinguish neighbours: two DNNs that run without a pause take "
    "turns, and each takes twice as long. Only jobs with pauses gain from a good neighbour.",
    draws=partial(draw_panels, panels=_fig1, notes=lambda: [_STAND_INS]),
    claims=tuple(
        Claim(
            what=f"Fig. 1 (GPU): slowdown of Inception-V4 and of {other} side by side",
            paper=paper,
            ours=_growth(other),
            form="{:.3g} %, {:.3g} %",
            within=0.1,
            reason="in our contention model launches take turns, whichever DNN is the neighbour",
        )
        for other, paper in PAPER_GROWTH_PCT.items()
    ),
)

FIG2 = Figure(
    name="mediator-fig2",
    title="Utilisation of a GPU under a fluctuating workload",
    paper="MediatorDNN, Fig. 2, GPU",
    shows="The utilisation of each DNN varies; the extent depends on the DNN and on the spread of its batches.",
    look_for="Batches of Inception-V3 vary little relative to their mean, and so does its utilisation; those of the "
    "other two vary more.",
    draws=partial(draw_panels, panels=_fig2, notes=lambda: [_STAND_INS]),
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
    look_for="PNASNet-Large (job 12) and the text classifiers in batches of 512 (jobs 33 to 36) keep a GPU busiest. "
    "Deviations of jobs whose means are within 5 % of each other differ by up to a factor of five.",
    draws=partial(draw_panels, panels=_fig6, notes=lambda: [_STAND_INS]),
    claims=(
        Claim(
            what="Fig. 6 (GPU): largest ratio of the deviations of two jobs with equal mean utilisation",
            paper="equal means, unequal deviations",
            ours=lambda _: (deviation_ratio(job_utilisation()),),
            form="{:.1f} times",
            supports=lambda ratio: ratio >= 2.0,
            criterion="at least twice",
            note="equal: means within a twentieth of each other",
        ),
    ),
)

FIGURES = (FIG1, FIG2, FIG5, FIG6)

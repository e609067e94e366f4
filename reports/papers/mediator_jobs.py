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

PIVOT, OTHERS = "Inc-V4", ("MobV1-1", "Inc-V1", "Inc-V2", "ResV2-50", "ResV2-101")
"""DNNs of Fig. 1: each of the others beside the first."""

PAPER_GROWTH_PCT = {"MobV1-1": (26.0, 1.5), "ResV2-101": (84.0, 69.0)}
"""Slowdown of the first and the other DNN on a GPU in percent, where the text states it (Sec. II-A)."""

FLUCTUATING = (3, 10, 13)
"""Jobs of Fig. 2, which have the workloads of Table I."""

REPRESENTATIVE = (1, 12, 19, 30, 40)
"""Jobs of Fig. 5, chosen from Table III; the paper does not number its five."""

_LAUNCHES = 20_000
"""Launches of a DNN that runs without a pause: more than any DNN completes in the simulated time."""


class JobUtilisation(NamedTuple):
    """Utilisation of the forty jobs alone, in percent of a GPU, shape (40,): mean and deviation over a second each."""

    mean_pct: Floats
    deviation_pct: Floats


@cache
def _view() -> View:
    problem = next(each for each in suite("mediator-40").build() if each.name == INSTANCE)
    return View.of(problem, problem.gpus[0].type)


def growth_pct(other: str) -> tuple[float, float]:
    """Return the slowdowns of Inception-V4 and another DNN side by side, in batches of one without a pause."""
    tables, models = _view().tables, list(_view().gpu.models)

    def always(dnn: str) -> Launches:
        model = models.index(STAND_INS[dnn])
        return Launches(model, np.zeros(_LAUNCHES), np.ones(_LAUNCHES, dtype=np.int64))

    together = run_together(tables, [always(PIVOT), always(other)])
    found = []
    for place, dnn in enumerate((PIVOT, other)):
        alone = run_together(tables, [always(dnn)])
        alone_ms = alone.on_gpu_ms[0] / alone.launches[0]
        found.append(100.0 * float(together.on_gpu_ms[place] / together.launches[place] / alone_ms - 1.0))
    return found[0], found[1]


def job_utilisation() -> JobUtilisation:
    """Return the utilisation of the forty jobs as MediatorDNN profiles it (Fig. 6)."""
    found = of_jobs(_view(), _view().instance.jobs)
    return JobUtilisation(100.0 * found.mean, 100.0 * found.deviation)


def deviation_ratio(found: JobUtilisation, alike: float = 0.05) -> float:
    """Return the largest ratio of the deviations of two jobs whose means differ by at most the fraction ``alike``."""
    mean, deviation = found
    close = np.abs(mean[:, None] - mean) <= alike * np.maximum(mean[:, None], mean)
    return float((deviation[:, None] / deviation)[close].max())


def over_time_pct(number: int) -> Floats:
    """Return the utilisation of a GPU by one of the jobs alone, second by second, in percent (Fig. 2)."""
    view = _view()
    job = view.instance.jobs[number - 1]
    model = list(view.gpu.models).index(job.model)
    largest = largest_batch(view.gpu, job)
    launches = draw_launches(view.tables, model, job, largest, view.instance.seed, Sample.PROFILE)
    return np.asarray(100.0 * run_alone(view.tables, [launches])[0])


def _distribution(values: Sequence[float], weights: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the sorted values, the least twice, and the percentage of the weight at or below each; the first is 0."""
    order = np.argsort(values)
    cumulative = np.concatenate([[0.0], np.cumsum(np.array(weights)[order])])
    at = np.array(values, dtype=np.float64)[order]
    return np.concatenate([at[:1], at]), 100.0 * cumulative / cumulative[-1]


def _fig1() -> Sequence[Panel]:
    ours = {
        PIVOT: {"color": DEEP_BLUE, "marker": "o"},
        "the other": {"color": ORANGE, "marker": "s", "markerfacecolor": "white"},
    }
    papers = {PIVOT: STAR, "the other": {**STAR, "markerfacecolor": "white"}}
    here, published = {other: growth_pct(other) for other in OTHERS}, PAPER_GROWTH_PCT
    curves = [
        Curve(
            f"{dnn}{suffix}",
            [OTHERS.index(other) + (0.12, -0.12)[dnn == PIVOT] for other in found],
            [both[dnn != PIVOT] for both in found.values()],
            {"linestyle": "", "markersize": 5, **styles[dnn]},
        )
        for found, styles, suffix in ((here, ours, ""), (published, papers, ", the paper"))
        for dnn in styles
    ]
    places = list(range(len(OTHERS)))
    axes = {"xticks": places, "xticklabels": OTHERS, "xlim": (-0.5, len(OTHERS) - 0.5), "ylim": (0.0, 130.0)}
    return [Panel("", curves, {**axes, "xlabel": f"Beside {PIVOT}", "ylabel": "Slower than alone (%)"})]


def _fig2() -> Sequence[Panel]:
    panels = []
    for number in FLUCTUATING:
        values = over_time_pct(number)
        curve = Curve("utilisation of a GPU alone", range(len(values)), values, {"color": DEEP_BLUE, "linewidth": 0.7})
        title = f"{DNNS[number - 1]}: {values.mean():.1f} ± {values.std():.1f} %"
        panels.append(Panel(title, [curve], {"xlabel": "Time (s)", "ylabel": "Utilisation (%)", "ylim": (0.0, 80.0)}))
    return panels


def _fig5() -> Sequence[Panel]:
    looks = dict(zip(REPRESENTATIVE, SERIES, strict=False))
    steps = {"drawstyle": "steps-post"}
    batches, gaps = [], []
    for number, look in looks.items():
        job = _view().instance.jobs[number - 1]
        label = f"job {number}, {DNNS[number - 1]}"
        batches.append(Curve(label, *_distribution(job.batches, job.batch_weights), {**look.unmarked, **steps}))
        gaps.append(
            Curve(label, *_distribution(job.interarrival_ms, job.interarrival_weights), {**look.unmarked, **steps})
        )
    axes = {"ylabel": "Part at or below (%)", "ylim": (0.0, 102.0)}
    return [
        Panel("", batches, {**axes, "xlabel": "Batch size", "xscale": "log"}),
        Panel("", gaps, {**axes, "xlabel": "Time between batches (ms)"}),
    ]


def _fig6() -> Sequence[Panel]:
    mean, deviation = job_utilisation()
    jobs = range(1, len(mean) + 1)
    spans = [
        Curve("± standard deviation", (job, job), (m - d, m + d), {"color": ORANGE, "linewidth": 2.0})
        for job, m, d in zip(jobs, mean, deviation, strict=True)
    ]
    dots = Curve("mean", jobs, mean, {"color": BLACK, "marker": "o", "linestyle": ""})
    axes = {"xlabel": "Job", "ylabel": "Utilisation of a GPU (%)", "xlim": (0.0, 41.0), "xticks": range(4, 41, 4)}
    return [Panel("", [*spans, dots], axes)]


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

"""gpulet ATC'22, Fig. 15, and arXiv'21, Fig. 5 and 14: a changing load, and two models on one GPU as rates grow."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from bench.plan_simulation import simulate
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type
from instances.suites import suite
from instances.suites.gpulet import ARXIV_SLO_MS
from instances.view import View
from reports.charts.online import Setting, draw_online_runs, online_run
from reports.charts.palette import SERIES
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.runs import Runs

SETTING = Setting("gpulet-scen3-8gpu", rates=4.6, scheduler="gpu-scaling", headroom=1.2)
AS_PRINTED = replace(SETTING, headroom=1.0)
"""The setting without headroom; the paper plans without headroom."""

ARXIV_SETTING = Setting(
    "gpulet-equal",
    rates=2.0,
    scheduler="elastic-partitioning",
    headroom=1.2,
    parameters=("elastic-partitioning.variant=arxiv", "elastic-partitioning.interference=true"),
    seconds=1800.0,
)
ARXIV_AS_PRINTED = replace(ARXIV_SETTING, headroom=1.0)
"""The setting without headroom; the arXiv version plans without headroom."""

MODELS = ("lenet", "vgg16")

SCHEMES = {"by turns": (100.0, 100.0), "MPS (20:80)": (20.0, 80.0)}
"""Shares of the two models in percent; models that take turns have the whole GPU."""

WITHOUT_PARTITIONS = {"as halves": (50.0, 50.0), "as if alone": (100.0, 100.0)}
"""Shares for the worst and the best case of MPS without partitions, for which there is no performance model.

At worst each model has half the GPU all the time. At best each has the whole GPU, and only gpulet's factor of
interference slows it.
"""

RATES_RPS = (25.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0)
"""Rates of each model; the paper does not state its rates."""

_LOOKS = dict(zip(SCHEMES, (SERIES[1], SERIES[0]), strict=True))


@cache
def late_pct(scheme: str) -> dict[str, list[float]]:
    """Return the percentage of requests not in time at each of ``RATES_RPS``, by model, in 30 simulated seconds."""
    late_by_model: dict[str, list[float]] = {model: [] for model in MODELS}
    for rate_rps in RATES_RPS:
        instance = _instance(rate_rps)
        for workload in simulate(_plan(instance, scheme), instance).workloads:
            late_by_model[workload.id].append(100.0 * workload.violation_rate)
    return late_by_model


def largest_rate_rps(scheme: str) -> float:
    """Return the largest rate up to which at most 1 % of each model's requests are late; 0 without such a rate."""
    largest = 0.0
    for rate_rps, *late_of_models in zip(RATES_RPS, *late_pct(scheme).values(), strict=True):
        if max(late_of_models) > 100.0 * VIOLATIONS_ALLOWED:
            break
        largest = rate_rps
    return largest


def _instance(rate_rps: float) -> Instance:
    """Return LeNet and VGG-16 at the same rate on one GPU."""
    return Instance(
        name="lenet-vgg16",
        objective=Objective.COST,
        slo_rule=SloRule.DUTY_CYCLE,
        performance_model="gpulet",
        gpus=(GpuPool(gpu_type("rtx2080ti-arxiv"), 1),),
        workloads=tuple(Workload(model, model, ARXIV_SLO_MS[model], rate_rps) for model in MODELS),
    )


def _plan(instance: Instance, scheme: str) -> Plan:
    """Return the plan with the largest batches that leave half of the SLO for waiting.

    The duty cycle of models that take turns is a round of full batches.
    """
    gpu = instance.gpus[0].type
    view = View.of(instance, gpu)
    units = [round(pct * gpu.share_units / 100.0) for pct in {**SCHEMES, **WITHOUT_PARTITIONS}[scheme]]
    slots = [
        Slot(workload.id, _batch(view, position, units[position]), workload.rate_rps)
        for position, workload in enumerate(instance.workloads)
    ]
    if scheme == "by turns":
        round_ms = sum(_time_ms(view, position, slot.batch, gpu.share_units) for position, slot in enumerate(slots))
        gpulets = [Gpulet(gpu.share_units, tuple(slots), round_ms)]
    else:
        gpulets = [Gpulet(share, (slot,)) for share, slot in zip(units, slots, strict=True)]
    return Plan(instance.name, (PlacedGpu(gpu.name, tuple(gpulets)),))


def _batch(view: View, workload: int, units: int) -> int:
    batches = range(1, int(view.tables.max_batch[view.model[workload]]) + 1)
    return max(batch for batch in batches if _time_ms(view, workload, batch, units) <= view.slo_ms[workload] / 2.0)


def _time_ms(view: View, workload: int, batch: int, units: int) -> float:
    """Return the time of a batch alone on a share, in ms."""
    model = view.model[workload]
    return float(view.tables.active_ms[model, batch, units] + view.tables.transfer_ms[model, batch])


def _panels() -> Sequence[Panel]:
    late_by_scheme = {scheme: late_pct(scheme) for scheme in SCHEMES}
    axes = {"xlabel": "Rate of each model (req/s)", "ylabel": "Not in time (%)", "xlim": (0.0, 1.03 * RATES_RPS[-1])}
    return [
        Panel(
            f"{model}, SLO {ARXIV_SLO_MS[model]:g} ms",
            [Curve(scheme, RATES_RPS, late[model], _LOOKS[scheme].marked) for scheme, late in late_by_scheme.items()],
            axes,
        )
        for model in MODELS
    ]


@query
def _worst_late_pct(_: Runs, setting: Setting) -> Values:
    """Return the largest percentage of late requests in a period of 20 s."""
    periods = online_run(setting, "reschedule").periods
    return (max(100.0 * period.observation.violation_rate for period in periods),)


@query
def _worst_late_pct_of_a_model(_: Runs, setting: Setting) -> Values:
    """Return the largest percentage of late requests of one model in a period of 20 s."""
    worst = 0.0
    for period in online_run(setting, "reschedule").periods:
        observation = period.observation
        ended = np.maximum(1, observation.served + observation.dropped)
        worst = max(worst, float(max(observation.violations / ended)))
    return (100.0 * worst,)


@query
def _shares_and_load(_: Runs, setting: Setting) -> Values:
    """Return the least and the largest sum of shares of a period, and how the sums correlate with the load.

    The sum is in percent of a GPU; the load is that of the period before, for which the plan was made.
    """
    run = online_run(setting, "reschedule")
    (instance,) = suite(setting.instance).build()
    units = instance.gpus[0].type.share_units
    shares_pct = np.array([100.0 * period.share_units / units for period in run.periods])
    load_rps = np.array([period.observation.rate_rps.sum() for period in run.periods])
    correlation = float(np.corrcoef(shares_pct[1:], load_rps[:-1])[0, 1])
    return float(shares_pct.min()), float(shares_pct.max()), correlation


def _follow_the_load(setting: Setting) -> Claim:
    """Return the claim that the sum of the gpulets' shares follows the load."""
    return Claim(
        what="– sum of the gpulets' shares, least and most, and its correlation with the load",
        paper='"When the rate decreases, the sum of utilized partitions also decreases"',
        ours=_shares_and_load(setting),
        form="{:.0f}, {:.0f} % of a GPU, {:.2f}",
        supports=lambda _least, _most, correlation: correlation >= LEAST_CORRELATION,
        criterion="a correlation of at least 0.8",
        reason="cause not found",
    )


LEAST_CORRELATION = 0.8
"""Correlation from which the shares count as following the load."""

_FIRST_PLAN_AND_GPUS = "; {:.1f} % with the first plan kept; {} to {} GPUs"
"""Form of the last three values of ``_late_and_gpus``."""


@query
def _late_and_gpus(_: Runs, setting: Setting) -> Values:
    """Return percentages of late requests with changing plans and with the first plan, and fewest and most GPUs.

    A late request is not served in time.
    """
    following_run, static_run = (online_run(setting, policy) for policy in ("reschedule", "static"))
    gpus = [period.gpus_used for period in following_run.periods]
    late = [100.0 * run.observation.violation_rate for run in (following_run, static_run)]
    return (*late, min(gpus), max(gpus))


FIG15 = Figure(
    name="gpulet-fig15",
    title="Plans under a changing load of scen3",
    paper="gpulet ATC'22, Fig. 15",
    shows="Over 3,200 s of two waves GPUs and partitions follow the load of scen3; violations stay low.",
    look_for="GPUs and shares rise and fall with the throughput. The fixed plan for the mean rates (dotted) fails "
    "under both waves. The plans have headroom: the next plan is for the rates of the last 20 s and takes 12 s more to "
    "be ready; the table has the run without headroom, too. The shape of the load is the paper's; its heights and "
    "delays are ours.",
    cost="no runs, a few seconds",
    draws=partial(draw_online_runs, setting=SETTING),
    claims=(
        Claim(
            what="ATC Fig. 15: requests not in time under a changing load of scen3 on eight GPUs",
            paper='"successfully allocates more GPUs", "SLO violation rate lower than 1%"',
            ours=_late_and_gpus(AS_PRINTED),
            form="{:.2f} %" + _FIRST_PLAN_AND_GPUS,
            supports=lambda late_pct, _static_pct, fewest, most: late_pct < 1.0 and fewest < most,
            criterion="below 1 % late, and the number of GPUs changes",
            reason="plans come after the rates rise; headroom covers that (next lines)",
            note="the heights of the waves and the delays between models are ours (`docs/deviations.md`)",
        ),
        Claim(
            what="– in the worst period of 20 s",
            paper="below 1 %",
            ours=_worst_late_pct(AS_PRINTED),
            form="{:.2f} %",
            supports=lambda late_pct: late_pct < 1.0,
            criterion="below 1 %",
            reason="plans come after the rates rise; headroom covers that (next lines)",
        ),
        Claim(
            what="– of one model, in its worst period of 20 s",
            paper="below 1 %",
            ours=_worst_late_pct_of_a_model(AS_PRINTED),
            form="{:.2f} %",
            supports=lambda late_pct: late_pct < 1.0,
            criterion="below 1 %",
            reason="as the line above",
            note="the caption has the percentage of each model",
        ),
        _follow_the_load(AS_PRINTED),
        Claim(
            what="– with a headroom of 1.2",
            paper=NOTHING_PUBLISHED,
            ours=_late_and_gpus(SETTING),
            form="{:.2f} %" + _FIRST_PLAN_AND_GPUS,
        ),
        Claim(
            what="– in its worst period of 20 s",
            paper=NOTHING_PUBLISHED,
            ours=_worst_late_pct(SETTING),
            form="{:.2f} %",
        ),
    ),
)

ARXIV_FIG14 = Figure(
    name="gpulet-arxiv-fig14",
    title="Plans under a changing load of five models",
    paper="gpulet arXiv'21, Fig. 14",
    shows="Over 1,800 s shares follow the load of all five models; 0.14 % of the requests are not in time.",
    look_for="Shares rise and fall with the throughput. The fixed plan for the mean rates (dotted) does not follow. "
    "The first wave and the rise of the second are those of gpulet-fig15; in the paper every model has a trace of its "
    "own. The plans have headroom; the table has the run without headroom, too.",
    cost="no runs, a few seconds",
    draws=partial(draw_online_runs, setting=ARXIV_SETTING),
    claims=(
        Claim(
            what="arXiv Fig. 14: requests not in time under a changing load of five models",
            paper="0.14 %",
            ours=_late_and_gpus(ARXIV_AS_PRINTED),
            form="{:.2f} %" + _FIRST_PLAN_AND_GPUS,
            not_comparable="the paper uses a trace for each model and does not publish the traces",
            note="the printed waves are shorter (`docs/deviations.md`); plans come after the rates rise; headroom "
            "covers that (next lines)",
        ),
        Claim(
            what="– in the worst period of 20 s",
            paper=NOTHING_PUBLISHED,
            ours=_worst_late_pct(ARXIV_AS_PRINTED),
            form="{:.2f} %",
        ),
        _follow_the_load(ARXIV_AS_PRINTED),
        Claim(
            what="– with a headroom of 1.2",
            paper=NOTHING_PUBLISHED,
            ours=_late_and_gpus(ARXIV_SETTING),
            form="{:.2f} %" + _FIRST_PLAN_AND_GPUS,
        ),
    ),
)

ARXIV_FIG5 = Figure(
    name="gpulet-arxiv-fig5",
    title="Late requests of LeNet and VGG-16 on one GPU while their rates grow",
    paper="gpulet arXiv'21, Fig. 5",
    shows="With turns, and side by side without partitions, requests become late as the rates grow. Shares of 20 and "
    "80 % sustain much higher rates.",
    look_for="With turns VGG-16 is in time, but every LeNet that meets a batch of VGG-16 is late at any rate: its SLO "
    "is shorter than that batch. Side by side no request is late until VGG-16 needs more than its 80 %. Arrivals are "
    "Poisson; batches are the largest that leave half the SLO for waiting.",
    cost="no runs, a few seconds",
    draws=partial(
        draw_panels,
        panels=_panels,
        notes=lambda: [
            "MPS without partitions, the paper's third scheme, is not drawn: no performance model here describes it. "
            "EXPERIMENTS.md has two rates that enclose it."
        ],
    ),
    claims=(
        Claim(
            what="arXiv Fig. 5: largest rate of LeNet and VGG-16 with at most 1 % late, "
            "in turns and at shares of 20:80",
            paper='20:80 "can cope with significantly higher request rates"',
            ours=lambda _: tuple(map(largest_rate_rps, SCHEMES)),
            form="{:g} and {:g} req/s each",
            supports=lambda turns, shares: shares >= 2.0 * turns and shares > 0.0,
            criterion="at least twice the rate",
            reason="VGG-16 alone limits both",
            note="the rates, the batches and the cycle are ours (`docs/deviations.md`)",
        ),
        Claim(
            what="– MPS (default): each model with half the GPU; each with all of it, slowed by interference only",
            paper='"the SLO violation spikes up as we increase the incoming request rates"',
            ours=lambda _: tuple(map(largest_rate_rps, WITHOUT_PARTITIONS)),
            form="{:g} to {:g} req/s each",
            not_comparable="no performance model describes MPS without partitions; the two readings enclose it",
        ),
    ),
)

FIGURES = (FIG15, ARXIV_FIG5, ARXIV_FIG14)

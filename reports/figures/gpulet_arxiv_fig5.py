"""gpulet arXiv'21, Fig. 5: LeNet and VGG-16 on one GPU, by turns and side by side, while their rates grow."""

from collections.abc import Sequence
from functools import cache

from bench.plan_simulation import simulate
from bench.simulation.result import VIOLATIONS_ALLOWED
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type
from instances.suites.gpulet import ARXIV_SLO_MS
from instances.view import View
from reports.palette import SERIES
from reports.panels import Curve, Panel, line, panels_figure

MODELS = ("lenet", "vgg16")
SCHEMES = {"by turns": (100.0, 100.0), "MPS (20:80)": (20.0, 80.0)}
"""Share of each model in percent; models that take turns both have the whole GPU."""

RATES_RPS = (25.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0)
"""Rates of each model; the paper does not state its own."""

_LOOKS = dict(zip(SCHEMES, (SERIES[1], SERIES[0]), strict=True))


@cache
def late_pct(scheme: str) -> dict[str, list[float]]:
    """Return by model the percentage of the requests not in time in 30 simulated seconds, at each of ``RATES_RPS``."""
    found: dict[str, list[float]] = {model: [] for model in MODELS}
    for rate_rps in RATES_RPS:
        instance = _instance(rate_rps)
        for served in simulate(_plan(instance, scheme), instance).workloads:
            found[served.id].append(100.0 * served.violation_rate)
    return found


def largest_rate_rps(scheme: str) -> float:
    """Return the largest rate up to which at most 1 % of either model's requests are late; 0 if there is none."""
    largest = 0.0
    for rate_rps, *late in zip(RATES_RPS, *late_pct(scheme).values(), strict=True):
        if max(late) > 100.0 * VIOLATIONS_ALLOWED:
            break
        largest = rate_rps
    return largest


def _instance(rate_rps: float) -> Instance:
    return Instance(
        name="lenet-vgg16",
        objective=Objective.COST,
        slo_rule=SloRule.DUTY_CYCLE,
        performance_model="gpulet",
        gpus=(GpuPool(gpu_type("rtx2080ti"), 1),),
        workloads=tuple(Workload(model, model, ARXIV_SLO_MS[model], rate_rps) for model in MODELS),
    )


def _plan(instance: Instance, scheme: str) -> Plan:
    """Return the plan whose batches are the largest that leave half of the SLO for waiting."""
    gpu = instance.gpus[0].type
    view = View.of(instance, gpu)
    units = [round(pct * gpu.share_units / 100.0) for pct in SCHEMES[scheme]]
    slots = [
        Slot(workload.id, _batch(view, place, units[place]), workload.rate_rps)
        for place, workload in enumerate(instance.workloads)
    ]
    if scheme == "by turns":
        cycle_ms = max(ARXIV_SLO_MS[model] for model in MODELS) / 2.0
        gpulets = [Gpulet(gpu.share_units, tuple(slots), cycle_ms)]
    else:
        gpulets = [Gpulet(share, (slot,)) for share, slot in zip(units, slots, strict=True)]
    return Plan(instance.name, (PlacedGpu(gpu.name, tuple(gpulets)),))


def _batch(view: View, workload: int, units: int) -> int:
    tables, model = view.tables, view.model[workload]
    batches = range(1, int(tables.max_batch[model]) + 1)
    half_ms = view.slo_ms[workload] / 2.0
    return max(b for b in batches if tables.active_ms[model, b, units] + tables.transfer_ms[model, b] <= half_ms)


def _panels() -> Sequence[Panel]:
    found = {scheme: late_pct(scheme) for scheme in SCHEMES}
    axes = {"xlabel": "Rate of each model (req/s)", "ylabel": "Not in time (%)", "xlim": (0.0, 1.03 * RATES_RPS[-1])}
    return [
        Panel(
            f"{model}, SLO {ARXIV_SLO_MS[model]:g} ms",
            [Curve(scheme, RATES_RPS, late[model], line(_LOOKS[scheme])) for scheme, late in found.items()],
            axes,
        )
        for model in MODELS
    ]


FIGURE = panels_figure(
    _panels,
    lambda: ["MPS without partitions, the paper's third scheme, is not drawn: no performance model here describes it."],
    name="gpulet-arxiv-fig5",
    title="Late requests of LeNet and VGG-16 on one GPU while their rates grow",
    paper="gpulet arXiv'21, Fig. 5",
    shows="With turns, and side by side without partitions, requests become late as the rates grow. Shares of 20 and "
    "80 % sustain much higher rates.",
    look_for="With turns VGG-16 is in time, but every LeNet that meets a batch of VGG-16 is late at any rate: its SLO "
    "is shorter than that batch. Side by side no request is late until VGG-16 needs more than its 80 %. Arrivals are "
    "Poisson; batches are the largest that leave half the SLO for waiting.",
    cost="no runs, a few seconds",
)

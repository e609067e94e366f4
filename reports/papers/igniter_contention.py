"""iGniter, Fig. 3 to 7: effects of co-location on a V100 (Sec. 2.2), by the performance models."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance import performance_model
from instances.performance.model import Demand
from instances.performance.validation import latencies_ms
from reports.charts.palette import PERFORMANCE_LOOKS, SERIES
from reports.charts.panels import MEASURED, Curve, Panel, draw_panels
from reports.claim import Claim, Values, query
from reports.figure import Figure
from reports.measured import light_profile, measured_pairs, measured_solo, missing_note
from reports.runs import MissingDataError, Runs

MODELS = ("alexnet", "resnet50", "vgg19")

PERFORMANCE = ("igniter", "hybrid")
"""Performance models for more than two residents."""

RESIDENTS = range(1, 6)

BATCHES, SHARE_PCT = (1, 16), 20.0
"""Batches of every workload in Fig. 3, since the paper states its share only. Fig. 6 and 7 use the larger one."""

PIVOT, NEIGHBOURS = "resnet50", ("alexnet", "vgg19")
PIVOT_BATCH, HALF_PCT = 16, 50.0

NEIGHBOUR_BATCHES = (1, 2, 4, 8, 16, 32)
"""Batches of Fig. 4."""

_LOOKS = dict(zip(MODELS, SERIES, strict=False))
_missing_note = partial(missing_note, "v100")
_COUNT = {"xlabel": "Workloads on the GPU", "xticks": list(RESIDENTS)}


def copies_slowdown(performance: str, model: str, batch: int) -> Floats:
    """Return the latency beside copies of itself over that alone, by number of residents (Fig. 3), shape (5,)."""
    groups = [[Configuration(model, batch, SHARE_PCT)] * count for count in RESIDENTS]
    together_ms = np.array([times[0] for times in latencies_ms(gpu_type("v100"), performance, groups)])
    return np.asarray(together_ms / together_ms[0])


def neighbour_slowdown(performance: str, neighbour: str) -> Floats:
    """Return ResNet-50's latency beside a neighbour over that alone, by the neighbour's batch (Fig. 4), shape (6,)."""
    own = Configuration(PIVOT, PIVOT_BATCH, HALF_PCT)
    groups = [[own], *([own, Configuration(neighbour, batch, HALF_PCT)] for batch in NEIGHBOUR_BATCHES)]
    times_ms = np.array([times[0] for times in latencies_ms(gpu_type("v100"), performance, groups)])
    return np.asarray(times_ms[1:] / times_ms[0])


def measured_slowdown(neighbour: str) -> dict[int, float]:
    """Return the ratio of ``neighbour_slowdown`` from measurements, if available, by the neighbour's batch."""
    own = Configuration(PIVOT, PIVOT_BATCH, HALF_PCT)
    alone_ms = [sample.latency_ms for sample in measured_solo("v100") if sample.configuration == own]
    beside = {Configuration(neighbour, batch, HALF_PCT): batch for batch in NEIGHBOUR_BATCHES}
    return {
        beside[sample.other]: sample.latency_ms / alone_ms[0]
        for sample in measured_pairs("v100")
        if sample.own == own and sample.other in beside and alone_ms
    }


def neighbour_demands(neighbour: str) -> tuple[Floats, Floats]:
    """Return a neighbour's L2 utilisation in percent and power in watts by iGniter's model, by batch (Fig. 4)."""
    gpu = gpu_type("v100")
    batch = np.array(NEIGHBOUR_BATCHES, dtype=np.float64)
    demand = performance_model("igniter").demand(gpu, gpu.model(neighbour), batch, np.full_like(batch, HALF_PCT))
    return demand.l2_pct, demand.power_w


def measured_l2_pct(neighbour: str) -> dict[int, float]:
    """Return the measured L2 utilisation of a neighbour alone, if available, by batch (Fig. 4)."""
    return {
        sample.configuration.batch: sample.l2_pct
        for sample in measured_solo("v100")
        if (sample.configuration.model, sample.configuration.share_pct) == (neighbour, HALF_PCT)
    }


def scheduling_ms(model: str) -> Floats:
    """Return the scheduling delay of a batch by number of residents (equations 5 and 6), shape (5,)."""
    gpu = gpu_type("v100")
    sensitivity = performance_model("igniter").sensitivity(gpu, gpu.model(model))
    contention = performance_model("igniter").contention(gpu)
    added = [0.0 if count == 1 else contention.alpha_sch * count + contention.beta_sch for count in RESIDENTS]
    return np.asarray(sensitivity.scheduling_alone_ms + sensitivity.kernels * np.array(added))


def alone(model: str) -> Demand:
    """Return the demands of a workload of Fig. 6 and 7 alone by iGniter's model, arrays of shape (1,)."""
    gpu = gpu_type("v100")
    batch, share_pct = np.array([float(BATCHES[-1])]), np.array([SHARE_PCT])
    return performance_model("igniter").demand(gpu, gpu.model(model), batch, share_pct)


def others_l2_pct(model: str) -> Floats:
    """Return the L2 utilisation of the other residents together, by number of residents, shape (5,)."""
    return np.asarray(alone(model).l2_pct * (np.array(RESIDENTS) - 1))


def active_ms(model: str) -> Floats:
    """Return the active time of a batch by number of residents (equation 8), shape (5,)."""
    alpha = gpu_type("v100").model(model).alpha_cache
    return np.asarray(alone(model).active_ms * (1.0 + alpha * others_l2_pct(model)))


def power_w(model: str) -> Floats:
    """Return the power that the residents demand together, idle power included (equation 10), shape (5,)."""
    return np.asarray(gpu_type("v100").hardware.idle_power_w + alone(model).power_w * np.array(RESIDENTS))


def frequency_mhz(model: str) -> Floats:
    """Return the frequency of the GPU by number of residents (equation 9), shape (5,)."""
    hardware = gpu_type("v100").hardware
    beyond_w = np.maximum(0.0, power_w(model) - hardware.max_power_w)
    return np.asarray(hardware.max_frequency_mhz + hardware.alpha_f * beyond_w)


def _copies(quantity: str, factor: float = 1.0) -> list[Curve]:
    """Return the measurements of VGG-19 beside copies of itself, if the light profile is available."""
    profile = light_profile()
    if not profile:
        return []
    measured = np.array(profile["gpu"]["identical_vgg19_colocated_1_to_5"][quantity])
    return [Curve("vgg19, measured", RESIDENTS, factor * measured, _LOOKS["vgg19"].hollow)]


def _predicted(values: dict[str, Floats]) -> list[Curve]:
    return [Curve(model, RESIDENTS, each, _LOOKS[model].marked) for model, each in values.items()]


def _fig3() -> Sequence[Panel]:
    return [
        Panel(
            model,
            [
                Curve(f"{name}, batch {batch}", RESIDENTS, copies_slowdown(name, model, batch), style | dashes)
                for name in PERFORMANCE
                for style in [PERFORMANCE_LOOKS[name].marked]
                for batch, dashes in zip(BATCHES, ({"linestyle": "-"}, {"linestyle": ":"}), strict=True)
            ],
            {**_COUNT, "ylim": (0.95, 1.5), **({} if place else {"ylabel": "Latency (alone = 1)"})},
        )
        for place, model in enumerate(MODELS)
    ]


def _fig4() -> Sequence[Panel]:
    found = []
    for neighbour in NEIGHBOURS:
        measured = measured_slowdown(neighbour)
        curves = [
            Curve(name, NEIGHBOUR_BATCHES, neighbour_slowdown(name, neighbour), PERFORMANCE_LOOKS[name].marked)
            for name in ("igniter", "gpulet", "hybrid")
        ]
        if measured:
            curves.append(Curve("measured", list(measured), list(measured.values()), MEASURED))
        axes = {"xlabel": f"Batch of {neighbour}", "ylabel": "Latency (alone = 1)", "ylim": (1.0, 1.2)}
        ticks = {"xscale": "log", "xticks": NEIGHBOUR_BATCHES, "xticklabels": NEIGHBOUR_BATCHES}
        found.append(Panel(f"resnet50 beside {neighbour}", curves, {**axes, **ticks}))
    return found


def _fig5() -> Sequence[Panel]:
    curves = _predicted({model: scheduling_ms(model) for model in MODELS})
    curves += _copies("scheduling_delay_ms_per_kernel", float(gpu_type("v100").model("vgg19").kernels))
    return [Panel("", curves, {**_COUNT, "ylabel": "Scheduling delay (ms)"})]


def _fig6() -> Sequence[Panel]:
    return [
        Panel("", _predicted({PIVOT: values(PIVOT)}), {**_COUNT, "ylabel": label, "ylim": limits})
        for values, label, limits in (
            (active_ms, "GPU active time (ms)", (45.0, 52.0)),
            (others_l2_pct, "L2 use of the others (%)", (0.0, 32.0)),
        )
    ]


def _fig7() -> Sequence[Panel]:
    drawn = ("vgg19", "resnet50")
    limit_w = gpu_type("v100").hardware.max_power_w
    capped = _predicted({model: np.minimum(power_w(model), limit_w) for model in drawn}) + _copies("power_w")
    slowed = _predicted({model: frequency_mhz(model) for model in drawn}) + _copies("frequency_mhz")
    return [
        Panel("", capped, {**_COUNT, "ylabel": "GPU power (W)"}),
        Panel("", slowed, {**_COUNT, "ylabel": "GPU frequency (MHz)", "ylim": (1200.0, 1560.0)}),
    ]


def _measured(found: Mapping[int, float]) -> Mapping[int, float]:
    if not found:
        raise MissingDataError("no measurements")
    return found


def _beside_measured(_: Runs) -> Values:
    """Return the least and the largest measured growth of ResNet-50's latency beside a neighbour, in percent."""
    found = [growth for neighbour in NEIGHBOURS for growth in _measured(measured_slowdown(neighbour)).values()]
    return 100.0 * (min(found) - 1.0), 100.0 * (max(found) - 1.0)


def _beside_predicted(_: Runs) -> Values:
    """Return the growth of ``_beside_measured`` as iGniter's own model predicts it."""
    found = [neighbour_slowdown("igniter", name) for name in NEIGHBOURS]
    return 100.0 * (min(map(min, found)) - 1.0), 100.0 * (max(map(max, found)) - 1.0)


def _l2_measured(_: Runs) -> Values:
    """Return the L2 utilisation of each neighbour at the smallest and the largest batch."""
    least, most = NEIGHBOUR_BATCHES[0], NEIGHBOUR_BATCHES[-1]
    found = [_measured(measured_l2_pct(name)) for name in NEIGHBOURS]
    return tuple(by_batch[batch] for by_batch in found for batch in (least, most))


@query
def _demands(_: Runs, quantity: int) -> Values:
    """Return the predicted L2 utilisation (0) or power (1) of each neighbour at its smallest and largest batch."""
    found = [neighbour_demands(name)[quantity] for name in NEIGHBOURS]
    return tuple(float(values[end]) for values in found for end in (0, -1))


def _growth_of_copies(_: Runs) -> Values:
    grown = [
        100.0 * (float(copies_slowdown("igniter", model, batch)[place]) - 1.0)
        for model in MODELS
        for batch in BATCHES
        for place in range(1, len(RESIDENTS))
    ]
    return min(grown), max(grown)


def _delay_per_workload(_: Runs) -> Values:
    """Return the growth of the scheduling delay per added workload beyond two: ResNet-50 and AlexNet, in ms."""
    delays = [scheduling_ms(model) for model in ("resnet50", "alexnet")]
    return tuple(float(delay[-1] - delay[1]) / (len(delay) - 2) for delay in delays)


def _slowed(_: Runs) -> Values:
    """Return the first number of VGG-19's copies that slows the GPU down, and the frequency with five of them."""
    by_count_mhz = frequency_mhz("vgg19")
    first = next(count for count, mhz in zip(RESIDENTS, by_count_mhz, strict=True) if mhz < by_count_mhz[0])
    return first, float(by_count_mhz[-1])


FIG3 = Figure(
    name="igniter-fig3",
    title="Latency of a model beside copies of itself, by the number of workloads",
    paper="iGniter, Fig. 3",
    shows="With two to five workloads of one model at 20 % of a V100 each, latencies are 0.83 to 34.98 % longer than "
    "alone; the range includes Fig. 4.",
    look_for="Small and large batches slow down for different reasons: small ones by the scheduler's delay per "
    "kernel, large ones by the power cap. The paper does not state its batch. The hybrid model, which is fitted to "
    "pairs, predicts larger growths than iGniter's model.",
    draws=partial(draw_panels, panels=_fig3),
    claims=(
        Claim(
            what="Fig. 3: growth of latency with two to five copies on the GPU",
            paper="0.83–34.98 %, together with Fig. 4",
            ours=_growth_of_copies,
            form="{:.1f}–{:.1f} %",
            not_comparable="the paper states no batch, and its range covers two of its figures",
        ),
    ),
)

FIG4 = Figure(
    name="igniter-fig4",
    title="Latency of ResNet-50 by the batch of its neighbour",
    paper="iGniter, Fig. 4",
    shows="Beside AlexNet or VGG-19, half the V100 each, a batch of 16 takes 6.36 to 13.93 % longer than alone, the "
    "longer the larger the batch of the neighbour.",
    look_for="Hollow marks are measured and lie in the paper's range. iGniter's own model stays below them, since it "
    "ignores PCIe and DRAM. The models that are fitted to pairs come closer.",
    draws=partial(draw_panels, panels=_fig4, notes=_missing_note),
    claims=(
        Claim(
            what="Fig. 4: growth of ResNet-50's latency beside AlexNet and VGG-19, measured",
            paper="6.36–13.93 %",
            ours=_beside_measured,
            form="{:.1f}–{:.1f} %",
            supports=lambda least, most: least >= 6.36 and most <= 13.93,
            criterion="within the paper's range",
            note="only six of the paper's points are published",
        ),
        Claim(
            what="– the same, predicted by the model `igniter`",
            paper="6.36–13.93 %",
            ours=_beside_predicted,
            form="{:.1f}–{:.1f} %",
            supports=lambda least, most: least >= 6.36 and most <= 13.93,
            criterion="within the paper's range",
            reason="iGniter's model counts neither PCIe nor DRAM contention",
        ),
        Claim(
            what="– L2 utilisation at the smallest and the largest batch, AlexNet and VGG-19, measured",
            paper=(11.1, 18.4, 16.9, 22.0),
            ours=_l2_measured,
            form="{:.1f}–{:.1f} %, {:.1f}–{:.1f} %",
            within=5e-3,
        ),
        Claim(
            what="– the same, predicted by the model `igniter`",
            paper=(11.1, 18.4, 16.9, 22.0),
            ours=_demands(0),
            form="{:.1f}–{:.1f} %, {:.1f}–{:.1f} %",
            within=0.1,
            reason="the light profile fits a line to three samples",
        ),
        Claim(
            what="– power at the same batches, AlexNet and VGG-19, predicted by the model `igniter`",
            paper=(108, 156, 139, 179),
            ours=_demands(1),
            form="{:.0f}–{:.0f} W, {:.0f}–{:.0f} W",
            within=0.1,
            reason="the light profile fits a line to a few samples",
        ),
    ),
)

FIG5 = Figure(
    name="igniter-fig5",
    title="Scheduling delay by the number of workloads",
    paper="iGniter, Fig. 5",
    shows="The delay grows about linearly from two workloads on, and faster for ResNet-50 than for AlexNet, which has "
    "fewer kernels.",
    look_for="Lines are iGniter's equations 5 and 6: a slope in proportion to the kernels, of which ResNet-50 has 80, "
    "VGG-19 29 and AlexNet 20. Hollow marks are the measurements that the coefficients are fitted to.",
    draws=partial(draw_panels, panels=_fig5, notes=_missing_note),
    claims=(
        Claim(
            what="Fig. 5: scheduling delay per added workload, ResNet-50 and AlexNet",
            paper="linear from two workloads on, larger for ResNet-50",
            ours=_delay_per_workload,
            form="{:.2g} and {:.2g} ms",
            not_comparable="our coefficients are fitted to these measurements",
        ),
    ),
)

FIG6 = Figure(
    name="igniter-fig6",
    title="Active time of ResNet-50 and the demand for the L2 cache, by the number of workloads",
    paper="iGniter, Fig. 6",
    shows="The active time grows as the hit ratio of the L2 cache falls.",
    look_for="The hit ratio is not published. iGniter's model uses the others' L2 utilisation instead, and the active "
    "time grows in proportion to it.",
    draws=partial(draw_panels, panels=_fig6),
)

FIG7 = Figure(
    name="igniter-fig7",
    title="Power and frequency of a V100 by the number of workloads",
    paper="iGniter, Fig. 7",
    shows="Power grows linearly up to the cap of 300 W; from there on the frequency falls.",
    look_for="Lines are iGniter's equations 9 and 10 for batches of 16. Hollow marks are measured with VGG-19, whose "
    "fourth copy reaches the cap; the frequency's coefficient is fitted to them.",
    draws=partial(draw_panels, panels=_fig7, notes=_missing_note),
    claims=(
        Claim(
            what="Fig. 7: number of VGG-19 copies from which the GPU throttles; frequency with five",
            paper="frequency falls once the power reaches the cap of 300 W",
            ours=_slowed,
            form="from {}, {:,.0f} MHz",
            not_comparable="our coefficients are fitted to these measurements",
        ),
    ),
)

FIGURES = (FIG3, FIG4, FIG5, FIG6, FIG7)

"""iGniter, Fig. 3 to 7: effects of co-location on a V100 (Sec. 2.2), as performance models predict them."""

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

PERFORMANCE_MODELS = ("igniter", "hybrid")
"""Performance models that predict more than two co-located workloads."""

RESIDENTS = range(1, 6)
"""Numbers of workloads on the GPU."""

BATCHES, SHARE_PCT = (1, 16), 20.0
"""Batches and share of Fig. 3; the paper states only the share. Fig. 6 and 7 use the larger batch."""

PIVOT, NEIGHBOURS = "resnet50", ("alexnet", "vgg19")
RESNET50_BATCH, HALF_PCT = 16, 50.0

NEIGHBOUR_BATCHES = (1, 2, 4, 8, 16, 32)
"""Batches of the neighbour in Fig. 4."""

_LOOKS = dict(zip(MODELS, SERIES, strict=False))
_missing_note = partial(missing_note, "v100")
_COUNT_AXIS = {"xlabel": "Workloads on the GPU", "xticks": list(RESIDENTS)}


def copies_slowdown(performance: str, model: str, batch: int) -> Floats:
    """Return the latency of a model beside copies over its latency alone, at each of ``RESIDENTS`` (Fig. 3)."""
    groups = [[Configuration(model, batch, SHARE_PCT)] * count for count in RESIDENTS]
    together_ms = np.array([times[0] for times in latencies_ms(gpu_type("v100"), performance, groups)])
    return np.asarray(together_ms / together_ms[0])


def neighbour_slowdown(performance: str, neighbour: str) -> Floats:
    """Return the slowdown of ResNet-50 by a neighbour, at each of ``NEIGHBOUR_BATCHES``, shape (6,) (Fig. 4)."""
    resnet50 = Configuration(PIVOT, RESNET50_BATCH, HALF_PCT)
    groups = [[resnet50], *([resnet50, Configuration(neighbour, batch, HALF_PCT)] for batch in NEIGHBOUR_BATCHES)]
    times_ms = np.array([times[0] for times in latencies_ms(gpu_type("v100"), performance, groups)])
    return np.asarray(times_ms[1:] / times_ms[0])


def measured_slowdown(neighbour: str) -> dict[int, float]:
    """Return the measured slowdown of ResNet-50 by a neighbour, by the neighbour's batch, if it is available."""
    resnet50 = Configuration(PIVOT, RESNET50_BATCH, HALF_PCT)
    alone_ms = [sample.latency_ms for sample in measured_solo("v100") if sample.configuration == resnet50]
    batch_of_neighbour = {Configuration(neighbour, batch, HALF_PCT): batch for batch in NEIGHBOUR_BATCHES}
    return {
        batch_of_neighbour[sample.other]: sample.latency_ms / alone_ms[0]
        for sample in measured_pairs("v100")
        if sample.own == resnet50 and sample.other in batch_of_neighbour and alone_ms
    }


def neighbour_demands(neighbour: str) -> tuple[Floats, Floats]:
    """Return L2 utilisation in percent and power in watts by iGniter's model, at ``NEIGHBOUR_BATCHES`` (Fig. 4)."""
    gpu = gpu_type("v100")
    batch = np.array(NEIGHBOUR_BATCHES, dtype=np.float64)
    demand = performance_model("igniter").demand(gpu, gpu.model(neighbour), batch, np.full_like(batch, HALF_PCT))
    return demand.l2_pct, demand.power_w


def measured_l2_pct(neighbour: str) -> dict[int, float]:
    """Return the measured L2 utilisation of a neighbour in percent, by batch, if it is available (Fig. 4)."""
    return {
        sample.configuration.batch: sample.l2_pct
        for sample in measured_solo("v100")
        if (sample.configuration.model, sample.configuration.share_pct) == (neighbour, HALF_PCT)
    }


def scheduling_ms(model: str) -> Floats:
    """Return the scheduling delay of a batch in ms at each of ``RESIDENTS``, shape (5,) (equations 5 and 6)."""
    gpu = gpu_type("v100")
    sensitivity = performance_model("igniter").sensitivity(gpu, gpu.model(model))
    contention = performance_model("igniter").contention(gpu)
    added_per_kernel_ms = [
        0.0 if count == 1 else contention.alpha_sch * count + contention.beta_sch for count in RESIDENTS
    ]
    return np.asarray(sensitivity.scheduling_alone_ms + sensitivity.kernels * np.array(added_per_kernel_ms))


def demand_alone(model: str) -> Demand:
    """Return the demands of a workload alone by iGniter's model, arrays of shape (1,) (Fig. 6 and 7)."""
    gpu = gpu_type("v100")
    batch, share_pct = np.array([float(BATCHES[-1])]), np.array([SHARE_PCT])
    return performance_model("igniter").demand(gpu, gpu.model(model), batch, share_pct)


def l2_pct_of_others(model: str) -> Floats:
    """Return the summed L2 utilisation of all other residents in percent, at each of ``RESIDENTS``, shape (5,)."""
    return np.asarray(demand_alone(model).l2_pct * (np.array(RESIDENTS) - 1))


def active_ms(model: str) -> Floats:
    """Return the active time of a batch in ms at each of ``RESIDENTS``, shape (5,) (equation 8)."""
    alpha = gpu_type("v100").model(model).alpha_cache
    return np.asarray(demand_alone(model).active_ms * (1.0 + alpha * l2_pct_of_others(model)))


def power_w(model: str) -> Floats:
    """Return the power that all residents demand, with the idle power, at each of ``RESIDENTS`` (equation 10)."""
    return np.asarray(gpu_type("v100").hardware.idle_power_w + demand_alone(model).power_w * np.array(RESIDENTS))


def frequency_mhz(model: str) -> Floats:
    """Return the frequency of the GPU at each of ``RESIDENTS``, shape (5,) (equation 9)."""
    hardware = gpu_type("v100").hardware
    excess_w = np.maximum(0.0, power_w(model) - hardware.max_power_w)
    return np.asarray(hardware.max_frequency_mhz + hardware.alpha_f * excess_w)


def _measured_copies_curve(quantity: str, factor: float = 1.0) -> list[Curve]:
    """Return the curve of measurements of VGG-19 beside copies of itself; none without the light profile."""
    profile = light_profile()
    if not profile:
        return []
    measured = np.array(profile["gpu"]["identical_vgg19_colocated_1_to_5"][quantity])
    return [Curve("vgg19, measured", RESIDENTS, factor * measured, _LOOKS["vgg19"].hollow)]


def _predicted(values_by_model: dict[str, Floats]) -> list[Curve]:
    return [
        Curve(model, RESIDENTS, values_of_model, _LOOKS[model].marked)
        for model, values_of_model in values_by_model.items()
    ]


def _fig3() -> Sequence[Panel]:
    return [
        Panel(
            model,
            [
                Curve(f"{name}, batch {batch}", RESIDENTS, copies_slowdown(name, model, batch), style | line_style)
                for name in PERFORMANCE_MODELS
                for style in [PERFORMANCE_LOOKS[name].marked]
                for batch, line_style in zip(BATCHES, ({"linestyle": "-"}, {"linestyle": ":"}), strict=True)
            ],
            {**_COUNT_AXIS, "ylim": (0.95, 1.5), **({} if column else {"ylabel": "Latency (alone = 1)"})},
        )
        for column, model in enumerate(MODELS)
    ]


def _fig4() -> Sequence[Panel]:
    panels = []
    for neighbour in NEIGHBOURS:
        measured_by_batch = measured_slowdown(neighbour)
        curves = [
            Curve(name, NEIGHBOUR_BATCHES, neighbour_slowdown(name, neighbour), PERFORMANCE_LOOKS[name].marked)
            for name in ("igniter", "gpulet", "hybrid")
        ]
        if measured_by_batch:
            curves.append(Curve("measured", list(measured_by_batch), list(measured_by_batch.values()), MEASURED))
        axis_settings = {"xlabel": f"Batch of {neighbour}", "ylabel": "Latency (alone = 1)", "ylim": (1.0, 1.2)}
        tick_settings = {"xscale": "log", "xticks": NEIGHBOUR_BATCHES, "xticklabels": NEIGHBOUR_BATCHES}
        panels.append(Panel(f"resnet50 beside {neighbour}", curves, {**axis_settings, **tick_settings}))
    return panels


def _fig5() -> Sequence[Panel]:
    curves = _predicted({model: scheduling_ms(model) for model in MODELS})
    curves += _measured_copies_curve("scheduling_delay_ms_per_kernel", float(gpu_type("v100").model("vgg19").kernels))
    return [Panel("", curves, {**_COUNT_AXIS, "ylabel": "Scheduling delay (ms)"})]


def _fig6() -> Sequence[Panel]:
    return [
        Panel("", _predicted({PIVOT: values(PIVOT)}), {**_COUNT_AXIS, "ylabel": label, "ylim": limits})
        for values, label, limits in (
            (active_ms, "GPU active time (ms)", (45.0, 52.0)),
            (l2_pct_of_others, "L2 use of the others (%)", (0.0, 32.0)),
        )
    ]


def _fig7() -> Sequence[Panel]:
    models = ("vgg19", "resnet50")
    limit_w = gpu_type("v100").hardware.max_power_w
    power_curves = _predicted(
        {model: np.minimum(power_w(model), limit_w) for model in models}
    ) + _measured_copies_curve("power_w")
    frequency_curves = _predicted({model: frequency_mhz(model) for model in models}) + _measured_copies_curve(
        "frequency_mhz"
    )
    return [
        Panel("", power_curves, {**_COUNT_AXIS, "ylabel": "GPU power (W)"}),
        Panel("", frequency_curves, {**_COUNT_AXIS, "ylabel": "GPU frequency (MHz)", "ylim": (1200.0, 1560.0)}),
    ]


def _require_measured(values: Mapping[int, float]) -> Mapping[int, float]:
    if not values:
        raise MissingDataError("no measurements")
    return values


def _beside_measured(_: Runs) -> Values:
    """Return the smallest and the largest measured growth of ResNet-50's latency beside a neighbour, in percent."""
    slowdowns = [
        slowdown for neighbour in NEIGHBOURS for slowdown in _require_measured(measured_slowdown(neighbour)).values()
    ]
    return 100.0 * (min(slowdowns) - 1.0), 100.0 * (max(slowdowns) - 1.0)


def _beside_predicted(_: Runs) -> Values:
    """Return the smallest and the largest growth of ResNet-50's latency by iGniter's model, in percent."""
    slowdowns_of = [neighbour_slowdown("igniter", neighbour) for neighbour in NEIGHBOURS]
    return 100.0 * (min(map(min, slowdowns_of)) - 1.0), 100.0 * (max(map(max, slowdowns_of)) - 1.0)


def _l2_measured(_: Runs) -> Values:
    """Return the measured L2 utilisation of each neighbour at its smallest and its largest batch, in percent."""
    smallest, largest = NEIGHBOUR_BATCHES[0], NEIGHBOUR_BATCHES[-1]
    l2_pct_of = [_require_measured(measured_l2_pct(name)) for name in NEIGHBOURS]
    return tuple(by_batch[batch] for by_batch in l2_pct_of for batch in (smallest, largest))


@query
def _demands(_: Runs, quantity: int) -> Values:
    """Return the predicted L2 utilisation (0) or power (1) of each neighbour at its smallest and largest batch."""
    demands_of = [neighbour_demands(name)[quantity] for name in NEIGHBOURS]
    return tuple(float(values[end]) for values in demands_of for end in (0, -1))


def _growth_of_copies(_: Runs) -> Values:
    growths_pct = [
        100.0 * (float(copies_slowdown("igniter", model, batch)[index]) - 1.0)
        for model in MODELS
        for batch in BATCHES
        for index in range(1, len(RESIDENTS))
    ]
    return min(growths_pct), max(growths_pct)


def _delay_per_workload(_: Runs) -> Values:
    """Return the growth of the scheduling delay per workload beyond two, in ms: ResNet-50 and AlexNet."""
    delays = [scheduling_ms(model) for model in ("resnet50", "alexnet")]
    return tuple(float(delay[-1] - delay[1]) / (len(delay) - 2) for delay in delays)


def _throttling(_: Runs) -> Values:
    """Return the smallest number of VGG-19 copies at which the frequency falls, and the frequency with five copies."""
    frequencies_mhz = frequency_mhz("vgg19")
    first_slowed = next(
        count for count, frequency in zip(RESIDENTS, frequencies_mhz, strict=True) if frequency < frequencies_mhz[0]
    )
    return first_slowed, float(frequencies_mhz[-1])


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
            supports=lambda smallest, largest: smallest >= 6.36 and largest <= 13.93,
            criterion="within the paper's range",
            note="only six of the paper's points are published",
        ),
        Claim(
            what="– the same, predicted by the model `igniter`",
            paper="6.36–13.93 %",
            ours=_beside_predicted,
            form="{:.1f}–{:.1f} %",
            supports=lambda smallest, largest: smallest >= 6.36 and largest <= 13.93,
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
            ours=_throttling,
            form="from {}, {:,.0f} MHz",
            not_comparable="our coefficients are fitted to these measurements",
        ),
    ),
)

FIGURES = (FIG3, FIG4, FIG5, FIG6, FIG7)

"""iGniter, Fig. 5 to 7: contention for the scheduler, the L2 cache and the power of a V100 (Sec. 2.2)."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.performance import performance_model
from instances.performance.model import Demand
from reports.charts.palette import SERIES
from reports.charts.panels import Curve, Panel, draw_panels
from reports.claim import Claim, Values, query
from reports.figure import Figure
from reports.measured import light_profile, missing_note
from reports.papers.igniter_slowdown import BATCHES, COUNT_AXIS, MODELS, PIVOT, RESIDENTS, SHARE_PCT
from reports.runs import MissingDataError, Runs

LARGEST_OVER_SMALLEST_STEP = 1.25
"""Largest ratio of two steps at which a growth counts as roughly linear."""

_LOOKS = dict(zip(MODELS, SERIES, strict=False))
_missing_note = partial(missing_note, "v100")


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


def _fig5() -> Sequence[Panel]:
    curves = _predicted({model: scheduling_ms(model) for model in MODELS})
    curves += _measured_copies_curve("scheduling_delay_ms_per_kernel", float(gpu_type("v100").model("vgg19").kernels))
    return [Panel("", curves, {**COUNT_AXIS, "ylabel": "Scheduling delay (ms)"})]


def _fig6() -> Sequence[Panel]:
    return [
        Panel("", _predicted({PIVOT: values(PIVOT)}), {**COUNT_AXIS, "ylabel": label, "ylim": limits})
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
        Panel("", power_curves, {**COUNT_AXIS, "ylabel": "GPU power (W)"}),
        Panel("", frequency_curves, {**COUNT_AXIS, "ylabel": "GPU frequency (MHz)", "ylim": (1200.0, 1560.0)}),
    ]


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


@query
def _measured_steps(_: Runs, quantity: str, first: int, last: int) -> Values:
    """Return the smallest and the largest growth of a quantity by one more copy of VGG-19, measured.

    ``first`` and ``last`` are the numbers of copies between which the growth counts.
    """
    profile = light_profile()
    if not profile:
        raise MissingDataError("no measurements")
    steps = np.diff(profile["gpu"]["identical_vgg19_colocated_1_to_5"][quantity][first - 1 : last])
    return float(steps.min()), float(steps.max())


def _roughly_linear(smallest: float, largest: float) -> bool:
    return 0.0 < largest <= LARGEST_OVER_SMALLEST_STEP * smallest


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
        Claim(
            what="– growth of the delay per added workload, from two to five of VGG-19, measured: least and most",
            paper="a roughly linear increase",
            ours=_measured_steps("scheduling_delay_ms_per_kernel", 2, 5),
            form="{:.5f}, {:.5f} ms for each kernel",
            supports=_roughly_linear,
            criterion="the most at most 1.25 times the least",
            reason="cause not found",
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
    claims=(
        Claim(
            what="Fig. 6: active time of ResNet-50 alone and beside four copies",
            paper="it grows as the L2 hit ratio falls",
            ours=lambda _: tuple(float(active_ms(PIVOT)[end]) for end in (0, -1)),
            form="{:.1f}, {:.1f} ms",
            not_comparable="by equation 8 it always grows with the copies; neither the batch nor a hit ratio is "
            "published",
        ),
    ),
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
        Claim(
            what="– growth of the power per added workload, below the cap, VGG-19, measured: least and most",
            paper="roughly linear in the number of workloads",
            ours=_measured_steps("power_w", 1, 3),
            form="{:.1f}, {:.1f} W",
            supports=_roughly_linear,
            criterion="the most at most 1.25 times the least",
            reason="cause not found",
            note="of ResNet-50 no such measurement is published",
        ),
    ),
)

FIGURES = (FIG5, FIG6, FIG7)

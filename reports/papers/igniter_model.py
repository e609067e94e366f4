"""iGniter, Fig. 8, 9, 11, 12 and 13: its performance model of DNN models, alone and co-located, on a V100."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import Row
from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance import performance_model
from reports.charts.page import COLUMN_IN, Page, page
from reports.charts.palette import SERIES, shades
from reports.charts.panels import Curve, Panel, draw_panels
from reports.charts.predictions import draw_both, draw_colocated
from reports.claim import Claim, Values, query
from reports.figure import Figure
from reports.measured import light_profile, missing_note
from reports.runs import MissingDataError, Runs

MODEL = "resnet50"

PAIR = ("vgg19", "ssd")
"""Models of Fig. 11."""

PAIR_BATCH, PAIR_SHARES_PCT = 4, (20.0, 40.0, 50.0, 60.0, 80.0)
"""Batch of both models, and shares of the first. The paper's batch is 3; the published pairs have powers of two."""

SMALL_PAIR = ("alexnet", "resnet50")
"""Models of Fig. 12."""

SMALL_PAIR_BATCHES, SMALL_PAIR_SHARE_PCT = (2, 4, 8, 16, 32), 50.0
"""Batches and share of both models. The paper also has batch 1; the published pairs begin at batch 2."""

FOUR = ("alexnet", "resnet50", "vgg19", "ssd")
FOUR_BATCH, FOUR_SHARE_PCT = 3, 25.0
"""Batch and share of each of the four models in Fig. 13."""

FOUR_LEAST_ERROR = 0.0153
"""Smallest error of the paper's predictions in Fig. 13; the tolerance on the terms of a prediction."""

_FOUR_HEIGHT_IN = 2.6
_FOUR_NOTES = ["Only the paper measures four co-located models; its errors are 1.53 to 5.02 % for iGniter."]
BATCHES = (1, 4, 8, 16, 32)
SHARES_PCT = np.linspace(10.0, 100.0, 37)
_LOOKS = shades(len(BATCHES))

_DIAGONAL = ((0, 0), (1, 1), (2, 2))
"""Positions (batch, share) of the samples with an L2 utilisation in the light profile."""


def active_ms(batch: int, share_pct: Floats) -> Floats:
    """Return the active time of a batch alone in ms, at each share in ``share_pct`` (equation 11)."""
    gpu = gpu_type("v100")
    batches = np.full_like(share_pct, float(batch))
    return performance_model("igniter").demand(gpu, gpu.model(MODEL), batches, share_pct).active_ms


def profiled_ms(batch: int) -> tuple[Floats, Floats]:
    """Return shares in percent and active times in ms of a batch in the catalogue's smoothed grid of measurements.

    The times exclude the scheduling delay, which is a separate term of iGniter's model.
    """
    model = gpu_type("v100").model(MODEL)
    solo = model.profiled("v100")
    times_ms = solo.times_ms[solo.batch.index(batch)]
    return np.array(solo.share_pct), times_ms - model.scheduling_alone_ms


def relative_error(batch: int) -> float:
    """Return the mean relative error of equation 11 at a batch, over the shares of the catalogue's grid."""
    shares, times_ms = profiled_ms(batch)
    return float(np.mean(np.abs(active_ms(batch, shares) / times_ms - 1.0)))


def profiled_demands() -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return three arrays of the light profile, shape (batches, shares); they are empty without the profile.

    The arrays are the power above idle in watts, whether the GPU ran at full frequency, and the processing ability
    ``1000 batch / (latency - scheduling delay)`` in requests per second.
    """
    profile = light_profile()
    if not profile:
        return np.empty((0, 0)), np.empty((0, 0), dtype=np.bool_), np.empty((0, 0))
    profile_of_model = profile["models"][MODEL]
    active_latency_ms = (
        np.array(profile_of_model["gpu_latency_ms[batch][share]"]) - profile_of_model["scheduling_delay_alone_ms"]
    )
    ability = 1000.0 * np.array(profile["profiled_batches"])[:, None] / active_latency_ms
    full_frequency = np.array(profile_of_model["frequency_mhz[batch][share]"]) >= profile["gpu"]["max_frequency_mhz"]
    return np.array(profile_of_model["power_w[batch][share]"]) - profile["gpu"]["idle_power_w"], full_frequency, ability


def profiled_l2_pct() -> Floats:
    """Return the L2 utilisation of the light profile's diagonal samples in percent; empty without the profile."""
    profile = light_profile()
    return np.array(profile["models"][MODEL]["l2_util_pct_at_(1,10)_(16,50)_(32,100)"] if profile else [])


def _fig8() -> Sequence[Panel]:
    styles = list(zip(BATCHES, _LOOKS, strict=True))
    curves = [
        Curve(f"batch {batch}", SHARES_PCT, active_ms(batch, SHARES_PCT), style.unmarked) for batch, style in styles
    ]
    curves += [Curve("measured", *profiled_ms(batch), {**style.hollow, "marker": "o"}) for batch, style in styles]
    return [Panel("", curves, {"xlabel": "Share (%)", "ylabel": "GPU active time (ms)", "yscale": "log"})]


def _fig9() -> Sequence[Panel]:
    model = gpu_type("v100").model(MODEL)
    power_above_idle_w, full_frequency, ability = profiled_demands()
    ability_range = np.array([0.0, 1000.0 * model.max_batch / float(active_ms(model.max_batch, np.array([100.0]))[0])])
    fitted_style, measured_style = SERIES[0], SERIES[0].hollow
    power_curves = [
        Curve("fitted", ability_range, model.power[0] * ability_range + model.power[1], fitted_style.unmarked)
    ]
    l2_curves = [Curve("fitted", ability_range, model.l2[0] * ability_range + model.l2[1], fitted_style.unmarked)]
    if power_above_idle_w.size:
        capped = np.logical_not(full_frequency)
        power_curves.append(
            Curve("measured", ability[full_frequency], power_above_idle_w[full_frequency], measured_style)
        )
        power_curves.append(
            Curve("measured, power cap reached", ability[capped], power_above_idle_w[capped], SERIES[1].hollow)
        )
        l2_curves.append(
            Curve("measured", [ability[position] for position in _DIAGONAL], profiled_l2_pct(), measured_style)
        )
    axis_settings = {"xlabel": "Processing ability (req/s)"}
    return [
        Panel("", power_curves, {**axis_settings, "ylabel": "Power above idle (W)"}),
        Panel("", l2_curves, {**axis_settings, "ylabel": "L2 utilisation (%)"}),
    ]


def four_together() -> list[tuple[Configuration, ...]]:
    """Return the group of the four models of Fig. 13 four times, each time with another model first."""
    configurations = [Configuration(model, FOUR_BATCH, FOUR_SHARE_PCT) for model in FOUR]
    return [(first, *(other for other in configurations if other != first)) for first in configurations]


@dataclass(frozen=True, slots=True)
class Vgg19Terms:
    """Terms of equation 4 for VGG-19 beside others: delay and active time in ms, and frequency in MHz."""

    scheduling_ms: float
    active_ms: float
    frequency_mhz: float


def vgg19_terms(share_pct: float, others: Sequence[Configuration]) -> Vgg19Terms:
    """Return the terms of VGG-19 at the batch of Fig. 13 beside ``others`` (equations 5 to 10)."""
    gpu, model = gpu_type("v100"), performance_model("igniter")
    group = [Configuration("vgg19", FOUR_BATCH, share_pct), *others]
    demands = [
        model.demand(gpu, gpu.model(each.model), np.array([float(each.batch)]), np.array([each.share_pct]))
        for each in group
    ]
    own, contention, hardware = gpu.model("vgg19"), model.contention(gpu), gpu.hardware
    added_ms = own.kernels * (contention.alpha_sch * len(group) + contention.beta_sch)
    l2_pct = sum(float(demand.l2_pct[0]) for demand in demands[1:])
    power_w = hardware.idle_power_w + sum(float(demand.power_w[0]) for demand in demands)
    return Vgg19Terms(
        own.scheduling_alone_ms + added_ms,
        float(demands[0].active_ms[0]) * (1.0 + own.alpha_cache * l2_pct),
        hardware.max_frequency_mhz + hardware.alpha_f * max(0.0, power_w - hardware.max_power_w),
    )


@query
def _beside_one_and_three(_: Runs, term: str) -> Values:
    """Return a term of VGG-19 beside SSD (Fig. 11, 20 %), and beside all three others (Fig. 13, 25 %)."""
    others = [Configuration(model, FOUR_BATCH, FOUR_SHARE_PCT) for model in FOUR if model != "vgg19"]
    beside_ssd = vgg19_terms(20.0, [Configuration("ssd", FOUR_BATCH, 80.0)])
    return getattr(beside_ssd, term), getattr(vgg19_terms(FOUR_SHARE_PCT, others), term)


def _lowest_frequency_beside_ssd(_: Runs) -> Values:
    """Return the lowest frequency in MHz over the shares of Fig. 11, at batch 3."""
    return (
        min(
            vgg19_terms(share_pct, [Configuration("ssd", FOUR_BATCH, 100.0 - share_pct)]).frequency_mhz
            for share_pct in PAIR_SHARES_PCT
        ),
    )


def _profiled_configurations(_: Runs) -> Values:
    """Return the number of configurations of a model in the light profile."""
    profile = light_profile()
    if not profile:
        raise MissingDataError("no measurements")
    return (int(np.size(profile["models"][MODEL]["gpu_latency_ms[batch][share]"])),)


PROFILING = (
    Claim(
        what="Fig. 11: lowest frequency of VGG-19 beside SSD",
        paper=(1440,),
        ours=_lowest_frequency_beside_ssd,
        form="{:,.0f} MHz",
        within=FOUR_LEAST_ERROR,
        reason="the paper's is observed; ours is the prediction of equation 9",
    ),
    Claim(
        what="Sec. 3.1: profiled configurations of a model",
        paper=(11,),
        ours=_profiled_configurations,
        reason="the authors' published profile has these; it does not state the other two",
    ),
    Claim(
        what="Sec. 5.4: profiling time of AlexNet, ResNet-50, VGG-19, SSD and the hardware",
        paper="231, 247, 240, 237, 229 s",
        ours=lambda _: ("not measured",),
        not_comparable="nothing is profiled here: the coefficients are fitted to the authors' published profile",
    ),
)
"""Rows of the text about the profile and what it predicts."""


def _draw_four(figure: Figure, rows: Sequence[Row]) -> Page:
    sheet = page(COLUMN_IN, _FOUR_HEIGHT_IN, _FOUR_NOTES)
    ax = sheet.subplots()
    draw_colocated(ax, four_together(), FOUR, ())
    ax.set(title=f"Batch {FOUR_BATCH} at {FOUR_SHARE_PCT:g} % each", ylabel="Latency (ms)")
    ax.legend()
    return sheet


FIG8 = Figure(
    name="igniter-fig8",
    title="Active time of ResNet-50 by batch and share",
    paper="iGniter, Fig. 8",
    shows="The active time is about inverse to the share, and grows fast with the batch, as a quadratic function.",
    look_for="Lines are equation 11, fitted to the authors' light profile of nine configurations. Hollow marks are "
    "the catalogue's smoothed grid of their measurements, which the fit did not use.",
    draws=partial(draw_panels, panels=_fig8),
    claims=(
        Claim(
            what=f"Fig. 8: mean error of equation 11, batches {', '.join(map(str, BATCHES))}",
            paper="active time is inversely proportional to the share",
            ours=lambda _: tuple(100.0 * relative_error(batch) for batch in BATCHES),
            form="{:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f} %",
            supports=lambda *errors: max(errors) <= 10.0,
            criterion="at most 10 % at each batch",
            reason="small batches do not fill large shares",
        ),
    ),
)

FIG9 = Figure(
    name="igniter-fig9",
    title="Power and L2 utilisation of ResNet-50 by its processing ability",
    paper="iGniter, Fig. 9",
    shows="Both grow linearly with the requests that are processed per second of active time.",
    look_for="Both are on their lines. A sample at the power cap is not fitted. AlexNet, not drawn, fits worse: "
    "batches of one on the whole GPU take 134 W, 73 W by the line.",
    draws=partial(draw_panels, panels=_fig9, notes=lambda: missing_note("v100")),
)

FIG11 = Figure(
    name="igniter-fig11",
    title="Latency of VGG-19 beside SSD by share",
    paper="iGniter, Fig. 11",
    shows="iGniter's errors are 0.04 to 2.32 % for VGG-19 and 0.89 to 7.61 % for SSD; those of gpu-lets+ 1.30 to "
    "4.19 % and 0.02 to 4.43 %.",
    look_for="Bars are measured (three runs, standard deviation); marks are predicted by each performance model. The "
    "measured pairs come from another publication of the authors' data, not from the paper's own runs.",
    draws=partial(
        draw_both,
        models=PAIR,
        settings={f"{share:g}": ((PAIR_BATCH, share), (PAIR_BATCH, 100.0 - share)) for share in PAIR_SHARES_PCT},
        xlabel="Share (%)",
    ),
)

FIG12 = Figure(
    name="igniter-fig12",
    title="Latency of AlexNet beside ResNet-50 by batch size",
    paper="iGniter, Fig. 12",
    shows="iGniter's errors are 3.91 to 5.90 % for AlexNet and 1.10 to 9.29 % for ResNet-50; those of gpu-lets+ "
    "2.67 to 6.23 % and 0.78 to 9.76 %.",
    look_for="Bars are measured (three runs, standard deviation); marks are predicted by each performance model. The "
    "measured pairs come from another publication of the authors' data, not from the paper's own runs.",
    draws=partial(
        draw_both,
        models=SMALL_PAIR,
        settings={
            f"{batch}": ((batch, SMALL_PAIR_SHARE_PCT), (batch, SMALL_PAIR_SHARE_PCT)) for batch in SMALL_PAIR_BATCHES
        },
        xlabel="Batch",
    ),
)

FIG13 = Figure(
    name="igniter-fig13",
    title="Latency of four co-located models",
    paper="iGniter, Fig. 13",
    shows="iGniter predicts the latency of four co-located models with errors of 1.53 to 5.02 %; gpu-lets+ has no "
    "prediction for more than two.",
    look_for="Predictions of the models differ; only the paper's range of errors is known. Its text states an active "
    "time of 22.31 ms for VGG-19. gpulet's growths are those of the three pairs, added up.",
    draws=_draw_four,
    claims=(
        *(
            Claim(
                what=f"Fig. 13, VGG-19 beside SSD, then beside three: {what}",
                paper=paper,
                ours=_beside_one_and_three(term),
                form=form,
                within=FOUR_LEAST_ERROR,
                reason=reason,
            )
            for what, term, paper, form, reason in (
                ("active time", "active_ms", (27.54, 22.31), "{:.2f}, {:.2f} ms", ""),
                (
                    "scheduling delay",
                    "scheduling_ms",
                    (0.19, 0.36),
                    "{:.3f}, {:.3f} ms",
                    "by the printed α_sch and β_sch, a second resident adds hardly anything to a kernel's delay",
                ),
                ("frequency", "frequency_mhz", (1530, 1515), "{:,.0f}, {:,.0f} MHz", ""),
            )
        ),
    ),
)

FIGURES = (FIG8, FIG9, FIG11, FIG12, FIG13)

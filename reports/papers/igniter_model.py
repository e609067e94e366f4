"""iGniter, Fig. 8, 9, 11 and 12: its performance model of DNN models, alone and co-located, on a V100."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.performance import performance_model
from reports.charts.palette import SERIES, shades
from reports.charts.panels import Curve, Panel, draw_panels
from reports.charts.predictions import draw_both
from reports.claim import Claim, Values
from reports.figure import Figure
from reports.measured import light_profile, missing_note
from reports.runs import MissingDataError, Runs

MODEL = "resnet50"

PAIR = ("vgg19", "ssd")
"""Models of Fig. 11."""

PAIR_BATCH, PAIR_SHARES_PCT = 4, (20.0, 40.0, 60.0, 80.0)
"""Batch of both models, and shares of the first (README of icloud-ecnu/igniter, experiment 1).

The paper's batch is 3; the published pairs have powers of two.
"""

SMALL_PAIR = ("alexnet", "resnet50")
"""Models of Fig. 12."""

SMALL_PAIR_BATCHES, SMALL_PAIR_SHARE_PCT = (2, 4, 8, 16, 32), 50.0
"""Batches of the published pairs, and share of both models."""

SMALL_PAIR_PRINTED_BATCHES = (1, 3, 9, 27)
"""Batches of Fig. 12 (README of icloud-ecnu/igniter, experiment 2); their measurements are not published."""

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


def _errors_of_lines(_: Runs) -> Values:
    """Return the largest relative errors of the lines of power above idle and of L2 utilisation, in percent."""
    power_above_idle_w, full_frequency, ability = profiled_demands()
    if not power_above_idle_w.size:
        raise MissingDataError("no measurements")
    model = gpu_type("v100").model(MODEL)
    l2_ability = np.array([ability[position] for position in _DIAGONAL])
    samples = (
        (model.power, ability[full_frequency], power_above_idle_w[full_frequency]),
        (model.l2, l2_ability, profiled_l2_pct()),
    )
    return tuple(
        100.0 * float(np.max(np.abs((slope * x + base) / measured - 1.0))) for (slope, base), x, measured in samples
    )


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
    claims=(
        Claim(
            what="Fig. 9: largest errors of the lines of power and of L2 utilisation of ResNet-50",
            paper="both grow linearly with the processing ability",
            ours=_errors_of_lines,
            form="{:.1f}, {:.1f} %",
            supports=lambda *errors: max(errors) <= 10.0,
            criterion="at most 10 % at each sample",
            reason="cause not found",
            note="the lines are fitted to these samples, those of the power to those below the cap",
        ),
    ),
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

FIGURES = (FIG8, FIG9, FIG11, FIG12)

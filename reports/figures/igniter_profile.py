"""iGniter, Fig. 8 and 9: its performance model of ResNet-50 alone on a V100 (Sec. 3.1)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Floats
from instances.catalogue import gpu_type
from instances.performance import performance_model
from reports.measured import light_profile, missing_note
from reports.palette import SERIES, shades
from reports.panels import Curve, Panel, line, panels_figure, points

MODEL = "resnet50"
BATCHES = (1, 4, 8, 16, 32)
SHARES_PCT = np.linspace(10.0, 100.0, 37)

_LOOKS = shades(len(BATCHES))
_DIAGONAL = ((0, 0), (1, 1), (2, 2))
"""Positions of the batches and shares with an L2 utilisation in the light profile."""


def active_ms(batch: int, share_pct: Floats) -> Floats:
    """Return the active time alone (equation 11)."""
    gpu = gpu_type("v100")
    batches = np.full_like(share_pct, float(batch))
    return performance_model("igniter").demand(gpu, gpu.model(MODEL), batches, share_pct).active_ms


def profiled_ms(batch: int) -> tuple[Floats, Floats]:
    """Return shares and active times of a batch in the catalogue's own smoothed grid of measurements.

    The times exclude the scheduling delay, a separate term of iGniter's model.
    """
    model = gpu_type("v100").model(MODEL)
    solo = model.profiled("v100")
    times_ms = solo.times_ms[solo.batch.index(batch)]
    return np.array(solo.share_pct), times_ms - model.scheduling_alone_ms


def relative_error(batch: int) -> float:
    """Return the mean relative error of equation 11 over the catalogue's grid at a batch."""
    shares, times_ms = profiled_ms(batch)
    return float(np.mean(np.abs(active_ms(batch, shares) / times_ms - 1.0)))


def profiled_demands() -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return power above idle, whether the GPU ran at full frequency, and the ability of the light profile's samples.

    Ability is ``1000 b / (latency - scheduling delay)``. Arrays have shape (batches, shares); they are empty if the
    profile is not available.
    """
    profile = light_profile()
    if not profile:
        return np.empty((0, 0)), np.empty((0, 0), dtype=np.bool_), np.empty((0, 0))
    found = profile["models"][MODEL]
    active = np.array(found["gpu_latency_ms[batch][share]"]) - found["scheduling_delay_alone_ms"]
    ability = 1000.0 * np.array(profile["profiled_batches"])[:, None] / active
    full = np.array(found["frequency_mhz[batch][share]"]) >= profile["gpu"]["max_frequency_mhz"]
    return np.array(found["power_w[batch][share]"]) - profile["gpu"]["idle_power_w"], full, ability


def profiled_l2_pct() -> Floats:
    """Return the L2 utilisation of the light profile's diagonal samples; empty if it is not available."""
    profile = light_profile()
    return np.array(profile["models"][MODEL]["l2_util_pct_at_(1,10)_(16,50)_(32,100)"] if profile else [])


def _fig8() -> Sequence[Panel]:
    looks = list(zip(BATCHES, _LOOKS, strict=True))
    curves = [
        Curve(f"batch {b}", SHARES_PCT, active_ms(b, SHARES_PCT), {**line(look), "marker": ""}) for b, look in looks
    ]
    curves += [Curve("measured", *profiled_ms(b), {**points(look), "marker": "o"}) for b, look in looks]
    return [Panel("", curves, {"xlabel": "Share (%)", "ylabel": "GPU active time (ms)", "yscale": "log"})]


def _fig9() -> Sequence[Panel]:
    model = gpu_type("v100").model(MODEL)
    power, full, ability = profiled_demands()
    reach = np.array([0.0, 1000.0 * model.max_batch / float(active_ms(model.max_batch, np.array([100.0]))[0])])
    fitted, measured = SERIES[0], points(SERIES[0])
    watts = [Curve("fitted", reach, model.power[0] * reach + model.power[1], {**line(fitted), "marker": ""})]
    l2 = [Curve("fitted", reach, model.l2[0] * reach + model.l2[1], {**line(fitted), "marker": ""})]
    if power.size:
        capped = np.logical_not(full)
        watts.append(Curve("measured", ability[full], power[full], measured))
        watts.append(Curve("measured, power cap reached", ability[capped], power[capped], points(SERIES[1])))
        l2.append(Curve("measured", [ability[at] for at in _DIAGONAL], profiled_l2_pct(), measured))
    axes = {"xlabel": "Processing ability (req/s)"}
    return [
        Panel("", watts, {**axes, "ylabel": "Power above idle (W)"}),
        Panel("", l2, {**axes, "ylabel": "L2 utilisation (%)"}),
    ]


FIG8 = panels_figure(
    _fig8,
    name="igniter-fig8",
    title="Active time of ResNet-50 by batch and share",
    paper="iGniter, Fig. 8",
    shows="The active time is about inverse to the share, and grows fast with the batch, as a quadratic function.",
    look_for="Lines are equation 11, fitted to the authors' light profile of nine configurations. Hollow marks are "
    "the catalogue's smoothed grid of their measurements, which the fit did not use.",
)
FIG9 = panels_figure(
    _fig9,
    lambda: missing_note("v100"),
    name="igniter-fig9",
    title="Power and L2 utilisation of ResNet-50 by its processing ability",
    paper="iGniter, Fig. 9",
    shows="Both grow linearly with the requests that are processed per second of active time.",
    look_for="Both are on their lines. A sample at the power cap is not fitted. AlexNet, not drawn, fits worse: "
    "batches of one on the whole GPU take 134 W, 73 W by the line.",
)

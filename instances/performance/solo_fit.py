"""Fit of a solo profile to measured solo latencies: a monotone grid, linear demands and the regression's span."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from instances.arrays import Floats
from instances.errors import InputError
from instances.gpu import Line, SoloProfile
from instances.measurements import SoloSample
from instances.performance.igniter_fit import fit_active_time
from instances.performance.inss import locally_weighted
from instances.performance.model import alone_ms

SPANS = (0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Candidate spans of the locally weighted regression."""

DIGITS = 3
"""Significant digits of a catalogued time."""

CURVE_WEIGHT = 1e-3
"""Weight of a grid point whose time follows from the fitted curve instead of a measurement."""

PROJECTIONS = 2_000
"""Largest number of rounds of alternating projections, which stop earlier at a fixed point."""


@dataclass(frozen=True, slots=True)
class SoloFit:
    """A profile, and the relative errors ``predicted / measured - 1`` of its times, one per sample."""

    profile: SoloProfile
    error: Floats


def fit_solo(name: str, samples: Sequence[SoloSample], per_item_ms: float) -> SoloFit:
    """Fit the profile of one model.

    Parameters
    ----------
    name
        Name of the model in error messages.
    samples
        Samples of this model.
    per_item_ms
        Transfer time of an item; the latencies include it.

    Raises
    ------
    InputError
        If there are fewer than six samples, two batches or two shares, no sample at batch 1, or times below the
        transfers.
    """
    batch = np.array([sample.configuration.batch for sample in samples], dtype=float)
    share_pct = np.array([sample.configuration.share_pct for sample in samples])
    gpu_ms = np.array([sample.latency_ms for sample in samples]) - batch * per_item_ms
    batches, shares = np.unique(batch), np.unique(share_pct)
    if len(samples) < 6 or min(len(batches), len(shares)) < 2 or batches[0] != 1 or gpu_ms.min() <= 0.0:
        raise InputError(
            f"solo: {name}",
            "expected six or more times, all longer than the transfers, at batch 1, another batch and two shares",
        )
    k, _ = fit_active_time(batch, share_pct, gpu_ms)
    filled_ms, weight = _filled_grid(batch, share_pct, gpu_ms, batches, shares, k)
    smooth_ms = np.exp(monotone_surface(np.log(filled_ms), weight))
    grid_rows = [i for i, size in enumerate(batches) if _is_power_of_two(size) or size == batches[-1]]
    grid = rounded(smooth_ms[grid_rows])
    grid_batches = tuple(int(batches[i]) for i in grid_rows)
    solo_rps = 1000.0 * batch / gpu_ms
    l2, dram = (
        demand_line(solo_rps, np.array([getattr(sample, column) for sample in samples]))
        for column in ("l2_pct", "dram_pct")
    )
    profile = profile_of_grid(grid_batches, shares.tolist(), grid, l2, dram)
    return SoloFit(profile, alone_ms(profile, batch, share_pct) / gpu_ms - 1.0)


def _is_power_of_two(size: float) -> bool:
    return size.is_integer() and int(size) & (int(size) - 1) == 0


def profile_of_grid(
    batch: Sequence[int], share_pct: Sequence[float], gpu_ms: tuple[tuple[float, ...], ...], l2: Line, dram: Line
) -> SoloProfile:
    """Return the profile with times ``gpu_ms``, ``[batch][share]``, and demands on the lines ``l2`` and ``dram``."""
    full_gpu_rps = 1000.0 * np.array(batch) / np.array(gpu_ms)[:, -1]
    l2_pct, dram_pct = (rounded((line[0] * full_gpu_rps + line[1])[None, :])[0] for line in (l2, dram))
    span = best_span(batch, np.array(share_pct), np.array(gpu_ms))
    return SoloProfile(tuple(batch), tuple(share_pct), gpu_ms, l2_pct, dram_pct, l2, dram, span)


def _filled_grid(
    batch: Floats,
    share: Floats,
    gpu_ms: Floats,
    batches: Floats,
    shares: Floats,
    k: tuple[float, float, float, float, float],
) -> tuple[Floats, Floats]:
    """Return times on the whole grid and their weights; in gaps, times follow the curve from the nearest share."""
    i, j = np.searchsorted(batches, batch), np.searchsorted(shares, share)
    times_ms, weight = np.full((len(batches), len(shares)), np.nan), np.zeros((len(batches), len(shares)))
    times_ms[i, j], weight[i, j] = gpu_ms, 1.0
    k1, k2, k3, k4, k5 = k
    curve_ms = (k1 * batches**2 + k2 * batches + k3)[:, None] / (shares + k4)[None, :] + k5
    for row in range(len(batches)):
        measured = np.flatnonzero(weight[row])
        for column in np.flatnonzero(weight[row] == 0.0):
            if not len(measured):
                times_ms[row, column] = max(curve_ms[row, column], 1e-6)
                continue
            nearest = measured[np.argmin(np.abs(np.log(shares[measured] / shares[column])))]
            # The ratio follows the curve, but a speed-up is at most proportional to the share.
            ratio = np.clip(curve_ms[row, column] / curve_ms[row, nearest], 1e-6, np.inf)
            low, high = sorted((1.0, shares[nearest] / shares[column]))
            times_ms[row, column] = times_ms[row, nearest] * np.clip(ratio, low, high)
    weight[weight == 0.0] = CURVE_WEIGHT
    return times_ms, weight


def monotone_surface(values: Floats, weight: Floats) -> Floats:
    """Return the least-squares surface that never falls along the first axis and never rises along the second.

    The method is Dykstra's alternating projections, with pooling of adjacent violators on each axis. A final pass
    removes the remaining violations.
    """
    fitted, row_correction, column_correction = values.copy(), np.zeros_like(values), np.zeros_like(values)
    for _ in range(PROJECTIONS):
        previous = fitted.copy()
        rows = np.stack(
            [
                _nondecreasing(column, weights)
                for column, weights in zip((fitted + row_correction).T, weight.T, strict=True)
            ],
            axis=1,
        )
        row_correction = fitted + row_correction - rows
        fitted = np.stack(
            [-_nondecreasing(-row, weights) for row, weights in zip(rows + column_correction, weight, strict=True)]
        )
        column_correction = rows + column_correction - fitted
        if np.abs(fitted - previous).max() < 1e-10:
            break
    return np.asarray(np.maximum.accumulate(np.minimum.accumulate(fitted, axis=1), axis=0))


def _nondecreasing(values: Floats, weight: Floats) -> Floats:
    """Return the nondecreasing weighted least-squares sequence, by pooling adjacent violators."""
    level: list[float] = []
    total_weight: list[float] = []
    length: list[int] = []
    for value, value_weight in zip(values.tolist(), weight.tolist(), strict=True):
        level.append(value)
        total_weight.append(value_weight)
        length.append(1)
        while len(level) > 1 and level[-2] > level[-1]:
            pooled_weight = total_weight[-2] + total_weight[-1]
            level[-2] = (total_weight[-2] * level[-2] + total_weight[-1] * level[-1]) / pooled_weight
            total_weight[-2], length[-2] = pooled_weight, length[-2] + length[-1]
            del level[-1], total_weight[-1], length[-1]
    return np.repeat(level, length)


def rounded(grid: Floats) -> tuple[tuple[float, ...], ...]:
    """Round to ``DIGITS`` significant digits; this preserves the order of any two numbers."""
    return tuple(tuple(float(f"{value:.{DIGITS}g}") for value in row) for row in np.asarray(grid).tolist())


def demand_line(solo_rps: Floats, demand_pct: Floats) -> Line:
    """Fit demands as a line in ``1000 b / gpu_ms`` with slope and intercept at least 0.

    Demands that are not finite are unknown and left out. With fewer than two known demands, slope and intercept are 0.
    """
    measured = np.isfinite(demand_pct)
    if measured.sum() < 2:
        return 0.0, 0.0
    (slope, intercept), _ = nnls(np.column_stack([solo_rps[measured], np.ones(measured.sum())]), demand_pct[measured])
    return float(slope), float(intercept)


def best_span(batches: Sequence[int], shares: Floats, gpu_ms: Floats) -> float:
    """Return the span with the least leave-one-out error of the locally weighted regression.

    Points on the edge of the grid are never left out, because the regression does not extrapolate.
    """
    grid = np.stack(np.meshgrid(np.log(batches), np.log(shares), indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.log(gpu_ms).ravel()
    inner = np.zeros(gpu_ms.shape, dtype=bool)
    inner[1:-1, 1:-1] = True
    left_out = np.flatnonzero(inner.ravel())
    if not len(left_out):
        return SPANS[-1]

    def squared_error(span: float) -> float:
        total = 0.0
        for point in left_out:
            not_left_out = np.arange(len(values)) != point
            predicted = locally_weighted(grid[not_left_out], values[not_left_out], grid[point : point + 1], span)
            total += float((predicted[0] - values[point]) ** 2)
        return total

    return min(SPANS, key=squared_error)

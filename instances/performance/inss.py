"""InSS's performance model (its Sec. 4.1): locally weighted regression of solo times, and two linear growths."""

from functools import lru_cache

import numpy as np

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType, SoloProfile, required
from instances.logarithms import exp, log
from instances.performance.model import Demand, PerformanceModel, Sensitivity

LEAST_NEIGHBOURS = 5
"""Least number of grid points for a local plane; the farthest of them has no weight."""


class InssModel(PerformanceModel):
    """Solo time by locally weighted regression; growth linear in the others' L2 and DRAM utilisation."""

    name = "inss"

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the solo time, and the L2 and DRAM demands, which are linear in ``1000 b / active_ms``."""
        solo = model.profiled(gpu.name)
        active_ms = regressed_ms(solo, batch, share_pct)
        solo_rps = 1000.0 * batch / active_ms
        return Demand(
            active_ms,
            solo.l2[0] * solo_rps + solo.l2[1],
            solo.dram[0] * solo_rps + solo.dram[1],
            np.zeros_like(active_ms),
            np.ones_like(active_ms),
        )

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return the growths per percent; the solo time includes the scheduling delay."""
        return Sensitivity(0.0, 0.0, *required(model.inss, f"{gpu.name}: {model.name}", "InSS growths"))

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the missing profile or growths."""
        return "" if model.solo is not None and model.inss is not None else "solo times and InSS growths"


def regressed_ms(solo: SoloProfile, batch: Floats, share_pct: Floats) -> Floats:
    """Return the solo time ``o(b, r)``: regressed at whole percents, nonincreasing in the share, and linear in between.

    Parameters
    ----------
    solo
        The profile.
    batch, share_pct
        Broadcastable; whole batches within the grid, shares of at least one percent.
    """
    batches, shares_pct = np.broadcast_arrays(np.asarray(batch, float), np.asarray(share_pct, float))
    curves = _curves_ms(solo)
    lower_pct = np.clip(np.floor(shares_pct).astype(np.int64), 1, 99)
    row = batches.astype(np.int64) - 1
    time_ms = curves[row, lower_pct - 1] + (shares_pct - lower_pct) * (
        curves[row, lower_pct] - curves[row, lower_pct - 1]
    )
    return np.maximum(time_ms, solo.below_grid_bound_ms(batches, shares_pct))


@lru_cache(maxsize=256)
def _curves_ms(solo: SoloProfile) -> Floats:
    """Return the times at batches 1 to the largest and 1 to 100 percent, shape (batches, 100)."""
    batch, share = np.meshgrid(np.arange(1, solo.batch[-1] + 1), np.arange(1, 101), indexing="ij")
    grid = np.stack(np.meshgrid(log(solo.batch), log(solo.share_pct), indexing="ij"), axis=-1).reshape(-1, 2)
    queries = log(np.stack([batch.ravel(), share.ravel()], axis=1))
    times_ms = exp(locally_weighted(grid, log(solo.times_ms).ravel(), queries, solo.span))
    return np.asarray(np.minimum.accumulate(times_ms.reshape(batch.shape), axis=1))


def locally_weighted(points: Floats, values: Floats, queries: Floats, span: float) -> Floats:
    """Return a local regression at queries: a plane through the nearest points, weighted by the tricube of distance.

    The method is that of Cleveland and Devlin (1988). Axes are first divided by their standard deviations.

    Parameters
    ----------
    points, values
        Shape (points, 2) and (points,).
    queries
        Shape (queries, 2).
    span
        Fraction of the points that the plane of a query uses, in (0, 1].
    """
    spread = points.std(axis=0)
    scaled, scaled_queries = points / spread, queries / spread
    (px, py), (qx, qy) = scaled.T, scaled_queries.T
    distance = np.hypot(px[None, :] - qx[:, None], py[None, :] - qy[:, None])
    near_points = min(len(points), max(LEAST_NEIGHBOURS, int(np.ceil(span * len(points)))))
    largest_distance = np.partition(distance, near_points - 1, axis=1)[:, near_points - 1 : near_points] * (1.0 + 1e-9)
    weight = _cube(np.maximum(0.0, 1.0 - _cube(distance / largest_distance)))
    # The plane through the weighted mean; NumPy's sums along an axis have the same digits on every processor.
    total = weight.sum(axis=1)
    mean_x, mean_y, mean_value = ((weight * array).sum(axis=1) / total for array in (px, py, values))
    dx, dy, dv = px - mean_x[:, None], py - mean_y[:, None], values - mean_value[:, None]
    xx, yy, xy = (weight * dx * dx).sum(axis=1), (weight * dy * dy).sum(axis=1), (weight * dx * dy).sum(axis=1)
    xv, yv = (weight * dx * dv).sum(axis=1), (weight * dy * dv).sum(axis=1)
    to_x, to_y = qx - mean_x, qy - mean_y
    # If the near points are on one line, the slope across this line is 0.
    regularisation = 1e-9 * (total + xx + yy + total * (to_x * to_x + to_y * to_y))
    xx, yy = xx + regularisation, yy + regularisation
    slope_y = (yv - xy / xx * xv) / (yy - xy / xx * xy)
    slope_x = (xv - xy * slope_y) / xx
    return np.asarray(mean_value + to_x * slope_x + to_y * slope_y)


def _cube(values: Floats) -> Floats:
    """Return the third power of each value by products: the digits of ``values**3`` depend on the processor."""
    return values * values * values

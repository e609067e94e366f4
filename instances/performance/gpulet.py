"""gpulet's performance model (ATC'22, Sec. 4.4): a table of solo latencies and a regressed factor per pair."""

import numpy as np

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType, PairFactor, SoloProfile, required
from instances.logarithms import exp, log
from instances.performance.model import Demand, PerformanceModel, Sensitivity, interpolate


class GpuletModel(PerformanceModel):
    """Solo time from a table, times a factor of at least 1 that is linear in both gpulets' utilisations.

    Beside several others, the growths of the pairs add up; each is at least 0.
    """

    name = "gpulet"
    pairwise = True

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the solo time, utilisations in proportion to the share, and this gpulet's part of the factor."""
        solo, pair = model.profiled(gpu.name), _pair_factor(gpu)
        active_ms = tabulated_ms(solo, batch, share_pct)
        share = np.asarray(share_pct, float) / 100.0
        l2_pct, dram_pct = (
            np.interp(np.asarray(batch, float), solo.batch, full) * share for full in (solo.l2_pct, solo.dram_pct)
        )
        own_factor = (pair.l2_own * l2_pct + pair.dram_own * dram_pct) / 100.0 + pair.constant
        return Demand(active_ms, l2_pct, dram_pct, np.zeros_like(active_ms), own_factor)

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return the neighbour's part of the factor, per percent."""
        pair = _pair_factor(gpu)
        return Sensitivity(0.0, 0.0, pair.l2_other / 100.0, pair.dram_other / 100.0)

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the missing profile or pair factor."""
        return "" if model.solo is not None and gpu.pair is not None else "solo times and a pair factor"


def _pair_factor(gpu: GpuType) -> PairFactor:
    return required(gpu.pair, gpu.name, "pair factor")


def tabulated_ms(solo: SoloProfile, batch: Floats, share_pct: Floats) -> Floats:
    """Return the solo time ``L(b, p)``, linear in the batch; between shares it follows the largest batch's curve.

    That curve has the best resolution and is interpolated in logarithms. The time of every other batch moves from its
    time at one share to its time at the next in the same proportion.
    """
    batches, shares_pct = np.broadcast_arrays(np.asarray(batch, float), np.asarray(share_pct, float))
    table, grid_pct = solo.times_ms, np.array(solo.share_pct)
    curve_ms = exp(np.interp(log(shares_pct), log(grid_pct), log(table[-1])))
    left = np.clip(np.searchsorted(grid_pct, shares_pct, side="right") - 1, 0, len(grid_pct) - 2)
    fall_ms = table[-1, left] - table[-1, left + 1]
    linear = (shares_pct - grid_pct[left]) / (grid_pct[left + 1] - grid_pct[left])
    fraction = np.where(fall_ms > 0.0, (table[-1, left] - curve_ms) / np.where(fall_ms > 0.0, fall_ms, 1.0), linear)
    left_ms = interpolate(solo, table, batches, grid_pct[left], scale=np.asarray)
    right_ms = interpolate(solo, table, batches, grid_pct[left + 1], scale=np.asarray)
    time_ms = left_ms + np.clip(fraction, 0.0, 1.0) * (right_ms - left_ms)
    # Below the table's shares, the GPU's work bounds the time, which is then inverse to the share.
    return np.maximum(time_ms, solo.below_grid_bound_ms(batches, shares_pct))

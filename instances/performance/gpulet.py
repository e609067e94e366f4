"""gpulet's performance model (ATC'22, Sec. 4.4): a table of solo latencies and a regressed factor per pair."""

import numpy as np

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType, PairFactor, SoloProfile, required
from instances.performance.model import Demand, PerformanceModel, Sensitivity, interpolate


class GpuletModel(PerformanceModel):
    """Solo time from a table, times a factor of at least 1 that is linear in both gpulets' utilisations.

    Beside several others the growths of the pairs add up, each at least 0.
    """

    name = "gpulet"
    pairwise = True

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the solo time, utilisations in proportion to the share, and the own part of the factor."""
        solo, pair = model.profiled(gpu.name), _pair_factor(gpu)
        active_ms = tabulated_ms(solo, batch, share_pct)
        part = np.asarray(share_pct, float) / 100.0
        l2_pct, dram_pct = (
            np.interp(np.asarray(batch, float), solo.batch, full) * part for full in (solo.l2_pct, solo.dram_pct)
        )
        own = (pair.l2_own * l2_pct + pair.dram_own * dram_pct) / 100.0 + pair.constant
        return Demand(active_ms, l2_pct, dram_pct, np.zeros_like(active_ms), own)

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

    That curve has the best resolution. It is interpolated in logarithms, and each other batch moves between its times
    at two shares in the same proportion.
    """
    b, s = np.broadcast_arrays(np.asarray(batch, float), np.asarray(share_pct, float))
    table, shares = solo.times_ms, np.array(solo.share_pct)
    curve_ms = np.exp(np.interp(np.log(s), np.log(shares), np.log(table[-1])))
    j = np.clip(np.searchsorted(shares, s, side="right") - 1, 0, len(shares) - 2)
    fall_ms = table[-1, j] - table[-1, j + 1]
    linear = (s - shares[j]) / (shares[j + 1] - shares[j])
    part = np.where(fall_ms > 0.0, (table[-1, j] - curve_ms) / np.where(fall_ms > 0.0, fall_ms, 1.0), linear)
    at_left = interpolate(solo, table, b, shares[j], scale=np.asarray)
    at_right = interpolate(solo, table, b, shares[j + 1], scale=np.asarray)
    time_ms = at_left + np.clip(part, 0.0, 1.0) * (at_right - at_left)
    # Below the table's shares, the time is inverse in the share once the GPU's work is the bottleneck.
    return np.maximum(time_ms, solo.beyond_ms(b, s))

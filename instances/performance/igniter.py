"""iGniter's analytical performance model (its equations 1-11)."""

import numpy as np

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType
from instances.performance.model import Demand, PerformanceModel, Sensitivity


class IGniterModel(PerformanceModel):
    """Active time inverse in the share and quadratic in the batch; L2 and power linear in the solo throughput."""

    name = "igniter"
    loading_overlaps = True
    contended = True

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return active time (equation 11) and the L2 and power demands that follow from it."""
        k1, k2, k3, k4, k5 = model.k
        # Equation 11
        active_ms = (k1 * batch**2 + k2 * batch + k3) / (share_pct + k4) + k5
        solo_rps = 1000.0 * batch / active_ms
        return Demand(
            active_ms,
            model.l2[0] * solo_rps + model.l2[1],
            np.zeros_like(active_ms),
            model.power[0] * solo_rps + model.power[1],
            np.ones_like(active_ms),
        )

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return the factors of equations 5 and 8."""
        return Sensitivity(model.scheduling_alone_ms, float(model.kernels), model.alpha_cache, 0.0)

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Return an empty text: every catalogue entry has these coefficients."""
        return ""

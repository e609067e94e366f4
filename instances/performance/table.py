"""Performance model ``table``: measured solo times, for DNN models without measured interference."""

import numpy as np

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType
from instances.performance.model import Demand, PerformanceModel, Sensitivity, interpolate

TABLE = "table"
"""Name of this performance model."""

NEVER_MS = 1e12
"""Time at shares below the measured shares, where nothing is known. It is finite so that differences are finite."""


class TableModel(PerformanceModel):
    """Solo time by interpolation, linear in the batch and in the reciprocal of the share; no interference.

    Interference was not measured; the ``latency_buffer`` of an instance allows for it.
    """

    name = TABLE

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the solo time; no demand slows others."""
        solo = model.profiled(gpu.name)
        share = np.asarray(share_pct, dtype=float)
        time_ms = interpolate(solo, solo.times_ms, batch, share, np.asarray, lambda pct: -1.0 / pct)
        time_ms = np.where(share < solo.share_pct[0] * (1.0 - 1e-9), NEVER_MS, time_ms)
        zeros = np.zeros_like(time_ms)
        return Demand(time_ms, zeros, zeros, zeros, np.ones_like(time_ms))

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return a sensitivity of 0."""
        return Sensitivity(0.0, 0.0, 0.0, 0.0)

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the missing profile."""
        return "" if model.solo is not None else "solo times"

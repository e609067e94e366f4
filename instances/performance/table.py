"""Performance model ``table``: measured solo times and nothing else, for models without measured interference."""

from dataclasses import dataclass

import numpy as np

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType
from instances.performance.model import UNCONTENDED, Contention, Demand, Sensitivity, interpolate, pcie_transfers_ms

TABLE = "table"
"""Name of this performance model."""

NEVER_MS = 1e12
"""Time at shares below the measured ones, which are not extrapolated; finite, so that differences of times are, too."""


@dataclass(frozen=True, slots=True)
class TableModel:
    """Solo time by interpolation, linear in the batch and in the reciprocal of the share; no interference.

    Instances state a ``latency_buffer`` for interference, which was not measured.
    """

    name = TABLE
    loading_overlaps = False
    pairwise = False

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the solo time; no demand slows others."""
        solo = model.profiled(gpu.name)
        share = np.asarray(share_pct, dtype=float)
        time_ms = interpolate(solo, solo.times_ms, batch, share, np.asarray, lambda pct: -1.0 / pct)
        time_ms = np.where(share < solo.share_pct[0] * (1.0 - 1e-9), NEVER_MS, time_ms)
        none = np.zeros_like(time_ms)
        return Demand(time_ms, none, none, none, np.ones_like(time_ms))

    def transfers_ms(self, gpu: GpuType, model: DnnModel, batch: Floats) -> tuple[Floats, Floats]:
        """Return upload and feedback, linear in the batch."""
        return pcie_transfers_ms(gpu, model, batch)

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return a sensitivity of 0."""
        return Sensitivity(0.0, 0.0, 0.0, 0.0)

    def contention(self, gpu: GpuType) -> Contention:
        """Return no contention."""
        return UNCONTENDED

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the missing profile."""
        return "" if model.solo is not None else "solo times"

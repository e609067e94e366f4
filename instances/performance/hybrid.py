"""Hybrid performance model: measured solo times, a fitted co-location factor per batch and share, and linear sums.

The model has three effects. The first is in no paper's model:

- On the A100 small batches are bound by kernel launches. Beside any neighbour they take 1.3 to 2.5 times as long, and
  this hardly depends on the neighbour. The co-location factor (``Company.gpu_ms``) therefore depends only on the
  workload's own model, batch and share.
- L2 and DRAM contention slow a batch further, linearly in the others' utilisations. DNN models with measured pairs
  have their own slopes; other DNN models have the average slopes.
- The power cap and the scheduler's delay per kernel act as in iGniter's model.

Every prediction is a function of the number of residents N and of the sums C, D and P of their L2, DRAM and power
demands (``instances.interference``), so exact methods apply.
"""

import numpy as np

from instances.arrays import Floats
from instances.gpu import Company, DnnModel, GpuType, SoloProfile, required
from instances.logarithms import exp, log
from instances.performance.model import Demand, PerformanceModel, Sensitivity, alone_ms, interpolate


class HybridModel(PerformanceModel):
    """Interpolated solo time, co-location factor, growth by L2 and DRAM demands, delay per kernel and power cap."""

    name = "hybrid"
    loading_overlaps = True
    contended = True
    concurrent = True

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the solo time, the demands linear in ``1000 b / active_ms``, and the co-location factor."""
        solo, company = model.profiled(gpu.name), _company_of(gpu, model)
        active_ms = alone_ms(solo, batch, share_pct)
        solo_rps = 1000.0 * batch / active_ms
        return Demand(
            active_ms,
            solo.l2[0] * solo_rps + solo.l2[1],
            solo.dram[0] * solo_rps + solo.dram[1],
            model.power[0] * solo_rps + model.power[1],
            _company_factor(solo, company, batch, share_pct),
        )

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return the growths and the kernels; the solo time includes the scheduling delay."""
        company = _company_of(gpu, model)
        return Sensitivity(0.0, float(model.kernels), company.alpha_l2, company.alpha_dram)

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the missing profile or co-location factor."""
        return "" if model.solo is not None and model.company is not None else "solo times and a co-location factor"


def _company_of(gpu: GpuType, model: DnnModel) -> Company:
    return required(model.company, f"{gpu.name}: {model.name}", "co-location factor")


def _company_factor(solo: SoloProfile, company: Company, batch: Floats, share_pct: Floats) -> Floats:
    """Return the interpolated co-location factor, at least 1; co-located times then never rise with the share."""
    log_beside_ms, log_alone_ms = log(np.array(company.gpu_ms)), log(solo.times_ms)
    ratio = exp(interpolate(solo, log_beside_ms, batch, share_pct) - interpolate(solo, log_alone_ms, batch, share_pct))
    # Below the profiled shares both curves are extrapolated by their own slopes and could cross.
    return np.maximum(1.0, ratio)

"""Our performance model: measured times alone, a factor of company learned for each batch and share, linear sums.

What the papers' models miss on measured co-locations:

- on the A100 small batches are bound by kernel launches, and any neighbour at all slows these down, by 1.3 to 2.5
  times; which one it is hardly matters. A factor that depends on the workload's own model, batch and share describes
  that (``Company.gpu_ms``);
- L2 and DRAM contention act beside it, linear in the others' utilisations, per model where there is enough data;
- the power cap and the scheduler's delay per kernel act as in iGniter's model.

Everything stays a function of N, C, D and P (``instances.interference``), so that exact methods work on it.
"""

from dataclasses import dataclass

import numpy as np

from instances.arrays import Floats
from instances.errors import InputError
from instances.gpu import DnnModel, GpuType
from instances.performance.model import Contention, Demand, Sensitivity, hardware_contention
from instances.performance.transfers import pcie_transfers_ms
from instances.profile import Company, SoloProfile, alone_ms, interpolate


@dataclass(frozen=True, slots=True)
class HybridModel:
    """Time alone by interpolation; a factor in company, growths in L2 and DRAM sums, delay per kernel and power cap."""

    name = "hybrid"
    loading_overlaps = True
    pairwise = False

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return the time alone, the demands linear in the processing ability, and the factor of company."""
        solo, company = model.profiled(gpu.name), company_of(gpu, model)
        active_ms = alone_ms(solo, batch, share_pct)
        ability = 1000.0 * batch / active_ms
        return Demand(
            active_ms,
            solo.l2[0] * ability + solo.l2[1],
            solo.dram[0] * ability + solo.dram[1],
            model.power[0] * ability + model.power[1],
            company_factor(solo, company, batch, share_pct),
        )

    def transfers_ms(self, gpu: GpuType, model: DnnModel, batch: Floats) -> tuple[Floats, Floats]:
        """Return upload and feedback, linear in the batch."""
        return pcie_transfers_ms(gpu, model, batch)

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return the growths and the kernels; the time alone has the scheduling delay alone in it."""
        company = company_of(gpu, model)
        return Sensitivity(0.0, float(model.kernels), company.alpha_l2, company.alpha_dram)

    def contention(self, gpu: GpuType) -> Contention:
        """Return the factors of iGniter's equations 6, 9 and 10."""
        return hardware_contention(gpu)

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the profile or the factor of company where there is none."""
        return "" if model.solo is not None and model.company is not None else "solo times and a factor of company"


def company_of(gpu: GpuType, model: DnnModel) -> Company:
    """Return how a model suffers in company.

    Raises
    ------
    InputError
        If that was not fitted.
    """
    if model.company is None:
        raise InputError(f"{gpu.name}: {model.name}", "has no factor of company, which the model hybrid needs")
    return model.company


def company_factor(solo: SoloProfile, company: Company, batch: Floats, share_pct: Floats) -> Floats:
    """Factor of company by interpolation of the time in company, which keeps it from rising with the share."""
    crowded, alone = np.log(np.array(company.gpu_ms)), np.log(solo.times_ms)
    ratio = np.exp(interpolate(solo, crowded, batch, share_pct) - interpolate(solo, alone, batch, share_pct))
    # Below the profiled shares both curves go on by their own slopes and could cross.
    return np.maximum(1.0, ratio)

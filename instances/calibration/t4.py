"""NVIDIA T4, scaled from the V100 so that iGniter needs 15 of them for its twelve workloads (Fig. 20)."""

from dataclasses import replace

import numpy as np

from instances.catalogue import gpu_type
from instances.gpu import Company, DnnModel, GpuType, Provenance, SoloProfile
from instances.performance.solo_fit import rounded

TIME_FACTOR = 2.12
"""Ratio of times on a T4 to times on a V100.

The paper says that the V100 has twice the computing resources; with 2.12, iGniter needs 15 GPUs."""

INTERFERENCE_FACTOR = 3.0
"""Factor on interference: the ratio of the V100's memory bandwidth to the T4's (iGniter, Sec. 5.3: 3x)."""

POWER_CAP_W = 70.0
FREQUENCY_MHZ = 1590.0
PRICE_PER_HOUR = 0.526
MEMORY_MIB = 15360.0

SOURCE = (
    "scaled from the V100: times x 2.12, sensitivity to L2 and DRAM x 3, power to a cap of 70 W; pinned to the number"
    " of GPUs in iGniter's Fig. 20 (15 for its twelve workloads), hence no evidence for it"
)


def t4() -> GpuType:
    """Return the T4, scaled from the V100."""
    v100 = gpu_type("v100")
    hardware, power_ratio = v100.hardware, POWER_CAP_W / v100.hardware.max_power_w
    return replace(
        v100,
        name="t4",
        price_per_hour=PRICE_PER_HOUR,
        memory_mib=MEMORY_MIB,
        # A demand that exceeds the cap by some fraction lowers the frequency by the same fraction as on the V100.
        hardware=replace(
            hardware,
            idle_power_w=hardware.idle_power_w * power_ratio,
            max_power_w=POWER_CAP_W,
            max_frequency_mhz=FREQUENCY_MHZ,
            alpha_f=hardware.alpha_f / power_ratio * FREQUENCY_MHZ / hardware.max_frequency_mhz,
        ),
        models={name: _model(model, power_ratio) for name, model in v100.models.items()},
        provenance=Provenance("calibrated", SOURCE),
        margins=(),
    )


def _model(model: DnnModel, power_ratio: float) -> DnnModel:
    k1, k2, k3, k4, k5 = model.k
    slope_w, base_w = model.power
    slope_l2, base_l2 = model.l2
    return replace(
        model,
        k=(TIME_FACTOR * k1, TIME_FACTOR * k2, TIME_FACTOR * k3, k4, TIME_FACTOR * k5),
        # A batch at a share has the same utilisation as on the V100 but serves fewer requests per second.
        power=(slope_w * TIME_FACTOR * power_ratio, base_w * power_ratio),
        l2=(slope_l2 * TIME_FACTOR, base_l2),
        alpha_cache=INTERFERENCE_FACTOR * model.alpha_cache,
        solo=None if model.solo is None else _solo(model.solo),
        inss=None if model.inss is None else (INTERFERENCE_FACTOR * model.inss[0], INTERFERENCE_FACTOR * model.inss[1]),
        company=None if model.company is None else _company(model.company),
        provenance=Provenance("calibrated", SOURCE),
    )


def _solo(solo: SoloProfile) -> SoloProfile:
    (l2_slope, l2_base), (dram_slope, dram_base) = solo.l2, solo.dram
    times_ms = rounded(TIME_FACTOR * solo.times_ms)
    return replace(
        solo, gpu_ms=times_ms, l2=(l2_slope * TIME_FACTOR, l2_base), dram=(dram_slope * TIME_FACTOR, dram_base)
    )


def _company(company: Company) -> Company:
    times_ms = rounded(TIME_FACTOR * np.array(company.gpu_ms))
    return Company(times_ms, INTERFERENCE_FACTOR * company.alpha_l2, INTERFERENCE_FACTOR * company.alpha_dram)

"""Fit of interference to measured pairs: InSS's growths, gpulet's pair factor and the hybrid model's ``Company``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear, nnls

from instances.arrays import Flags, Floats
from instances.errors import InputError
from instances.gpu import Company, DnnModel, GpuType, Hardware, PairFactor, SoloProfile
from instances.grouping import grouped
from instances.measurements import Configuration, PairSample
from instances.performance.gpulet import tabulated_ms
from instances.performance.inss import regressed_ms
from instances.performance.model import alone_ms, pcie_transfers_ms
from instances.performance.solo_fit import rounded

ENOUGH = 30
"""Least number of samples from which a model has its own growths; with fewer, it has those fitted to all models."""

SHRINKAGE = 1.0
"""Ridge weight, in samples, of the effects that several cells share: an effect with one sample is about halved."""

LEAST_SHRINKAGE, MOST_SHRINKAGE = 0.3, 10.0
"""Range of the cells' ridge weight, which follows from the scatter within cells and between them."""

Curve = Callable[[SoloProfile, Floats, Floats], Floats]
"""Function of a solo profile, batch and share that returns the time alone."""

Effect = tuple[str | int | float, ...]
"""A term of the growth beside a neighbour, named by the batch, model and share that it holds for."""

OVERALL: Effect = ()
"""The effect on all configurations."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Samples with the GPU times of the own model and the demands of the other; arrays of shape (samples,).

    Attributes
    ----------
    gpu_ms
        Measured GPU time without transfers.
    demand
        L2 and DRAM demand of the other model, as fractions, shape (samples, 2).
    """

    samples: Sequence[PairSample]
    gpu_ms: Floats
    demand: Floats

    @classmethod
    def of(cls, gpu: GpuType, samples: Sequence[PairSample]) -> "Sides":
        """Compute the GPU times and the neighbours' demands of the samples.

        Raises
        ------
        InputError
            If a latency is not longer than the transfers.
        """
        transfer_ms = [
            float(sum(pcie_transfers_ms(gpu, gpu.model(s.own.model), np.array(float(s.own.batch))))) for s in samples
        ]
        gpu_ms = np.array([s.latency_ms for s in samples]) - transfer_ms
        if gpu_ms.min() <= 0.0:
            own = samples[int(np.argmin(gpu_ms))].own
            raise InputError("pairs", f"{own}: the latency is below the transfers alone; expected a whole inference")
        return cls(samples, gpu_ms, np.array([demand(gpu, s.other) for s in samples]) / 100.0)


def demand(gpu: GpuType, at: Configuration) -> tuple[float, float]:
    """Return the L2 and DRAM demand of a model in percent, by the lines of its solo profile."""
    solo = gpu.model(at.model).profiled(gpu.name)
    ability = 1000.0 * at.batch / float(alone_ms(solo, np.array(float(at.batch)), np.array(at.share_pct)))
    return solo.l2[0] * ability + solo.l2[1], solo.dram[0] * ability + solo.dram[1]


def fit_inss(gpu: GpuType, samples: Sequence[PairSample]) -> dict[str, tuple[float, float]]:
    """Fit each model's growths per percent of L2 and DRAM, at least 0, by least squares of relative errors."""
    sides = Sides.of(gpu, samples)
    alone = np.array([_at(regressed_ms, gpu, s.own) for s in samples])
    own = np.array([s.own.model for s in samples])
    ratio = sides.gpu_ms / alone

    def growths(rows: Flags) -> tuple[float, float]:
        weight = 1.0 / ratio[rows]
        (l2, dram), _ = nnls(sides.demand[rows] * weight[:, None], (ratio[rows] - 1.0) * weight)
        return l2 / 100.0, dram / 100.0

    pooled = growths(np.ones(len(own), dtype=bool))
    return {name: growths(own == name) if np.sum(own == name) >= ENOUGH else pooled for name in gpu.models}


def fit_pair_factor(gpu: GpuType, samples: Sequence[PairSample]) -> tuple[PairFactor, float]:
    """Fit gpulet's five constants by least squares and return them with R squared.

    The two constants of the other gpulet are at least 0.
    """
    sides = Sides.of(gpu, samples)
    factor = sides.gpu_ms / np.array([_at(tabulated_ms, gpu, s.own) for s in samples])
    own, other = (
        np.array([_in_proportion(gpu, at) for at in side]) / 100.0
        for side in ([s.own for s in samples], [s.other for s in samples])
    )
    design = np.column_stack([own[:, 0], other[:, 0], own[:, 1], other[:, 1], np.ones(len(factor))])
    lower = [-np.inf, 0.0, -np.inf, 0.0, -np.inf]
    fitted = lsq_linear(design, factor, bounds=(lower, np.inf), method="bvls").x
    left = factor - design @ fitted
    return PairFactor(*(float(c) for c in fitted)), float(1.0 - left.var() / factor.var())


def _in_proportion(gpu: GpuType, at: Configuration) -> tuple[float, float]:
    """Return the utilisations on the full GPU times the share, in percent."""
    solo = gpu.model(at.model).profiled(gpu.name)
    l2, dram = (float(np.interp(at.batch, solo.batch, full)) for full in (solo.l2_pct, solo.dram_pct))
    return l2 * at.share_pct / 100.0, dram * at.share_pct / 100.0


def _at(curve: Curve, gpu: GpuType, at: Configuration) -> float:
    return float(curve(gpu.model(at.model).profiled(gpu.name), np.array(float(at.batch)), np.array(at.share_pct)))


def fit_company(gpu: GpuType, samples: Sequence[PairSample]) -> dict[str, Company]:
    """Fit every model's slowdown by co-location (``instances.performance.hybrid``).

    The growth beside a neighbour is a sum of two parts. The first has an overall effect and effects of the batch, the
    model, the model's batch, the model's share and the cell of all three. The second is linear in the neighbour's L2
    and DRAM demand. One ridge regression of relative errors fits all effects and slopes, each at least 0. The effect of
    a cell with few samples is shrunk towards 0, so the more general effects decide there. A model without samples has
    the overall effect, the effects of its batches and the average slopes. The delay per kernel and the throttling are
    not fitted: they are those of the GPU type.
    """
    sides = Sides.of(gpu, samples)
    alone = np.array([_at(alone_ms, gpu, s.own) for s in samples])
    clock = np.array([_clock(gpu, s) for s in samples])
    delay_ms = np.array([gpu.model(s.own.model).kernels * _delay_ms(gpu.hardware) for s in samples])
    growth = (sides.gpu_ms * clock - delay_ms) / alone - 1.0
    weight = 1.0 / (growth + 1.0)
    own = [s.own for s in samples]
    columns = {effect: i for i, effect in enumerate(dict.fromkeys(e for at in own for e in effects_on(at)))}
    sensitive = {name: i for i, name in enumerate(dict.fromkeys(at.model for at in own))}
    design = np.zeros((len(own), len(columns) + 2 * len(sensitive)))
    for row, at in enumerate(own):
        design[row, [columns[effect] for effect in effects_on(at)]] = 1.0
        first = len(columns) + 2 * sensitive[at.model]
        design[row, first : first + 2] = sides.demand[row]
    ridge = np.full(design.shape[1], SHRINKAGE)
    ridge[columns[OVERALL]] = 0.0
    ridge[[columns[cell_of(at)] for at in own]] = _cell_shrinkage(own, growth)
    ridge[len(columns) :] = 0.0
    fitted, _ = nnls(
        np.concatenate([design * weight[:, None], np.diag(np.sqrt(ridge))]),
        np.concatenate([growth * weight, np.zeros(len(ridge))]),
        maxiter=20 * design.shape[1],
    )
    of_effect = {effect: float(fitted[i]) for effect, i in columns.items()}
    slopes = fitted[len(columns) :].reshape(-1, 2) / 100.0
    of_all = np.average(slopes, axis=0, weights=[sum(at.model == name for at in own) for name in sensitive])
    return {
        name: _company(model, own, of_effect, slopes[sensitive[name]] if name in sensitive else of_all)
        for name, model in gpu.models.items()
        if model.solo is not None
    }


def effects_on(at: Configuration) -> list[Effect]:
    """Return the effects on the growth of a co-located configuration."""
    model, batch, share = at.model, at.batch, at.share_pct
    return [OVERALL, (batch,), (model,), (model, batch), (model, f"{share:g} %"), cell_of(at)]


def cell_of(at: Configuration) -> Effect:
    """Return the effect of a configuration itself."""
    return at.model, at.batch, at.share_pct


def _cell_shrinkage(own: Sequence[Configuration], growth: Floats) -> float:
    """Return the cells' ridge weight: the variance within cells divided by that between the cells of a model's batch.

    If the growth hardly differs between shares, the weight is large and the effects of cells are small.
    """
    cells = grouped(zip(map(cell_of, own), growth.tolist(), strict=True))
    within = [np.var(values, ddof=1) for values in cells.values() if len(values) > 1]
    batches = grouped((cell[:2], float(np.mean(values))) for cell, values in cells.items())
    between = [np.var(means, ddof=1) for means in batches.values() if len(means) > 1]
    if not within or not between:
        return SHRINKAGE
    noise = float(np.mean(within))
    signal = float(np.mean(between)) - noise * float(np.mean([1.0 / len(values) for values in cells.values()]))
    return float(np.clip(noise / max(signal, 1e-12), LEAST_SHRINKAGE, MOST_SHRINKAGE))


def _company(
    model: DnnModel, measured: Sequence[Configuration], of_effect: Mapping[Effect, float], slopes: Floats
) -> Company:
    """Return the slowdown on the model's grid; each point has the effects on the nearest measured batch and share."""
    solo = model.profiled("")
    batches, shares_pct = np.unique([float(at.batch) for at in measured]), np.unique([at.share_pct for at in measured])
    nearest = [
        [
            Configuration(model.name, int(_nearest(batches, batch)), _nearest(shares_pct, share_pct))
            for share_pct in solo.share_pct
        ]
        for batch in solo.batch
    ]
    growth = [[sum(of_effect.get(effect, 0.0) for effect in effects_on(at)) for at in row] for row in nearest]
    crowded_ms = np.maximum(rounded(solo.times_ms * (1.0 + np.array(growth))), solo.times_ms)
    grid = tuple(tuple(map(float, row)) for row in crowded_ms)
    return Company(grid, float(slopes[0]), float(slopes[1]))


def _nearest(measured: Floats, at: float) -> float:
    """Return the measured value with the ratio to ``at`` that is nearest to 1."""
    return float(measured[np.argmin(np.abs(np.log(measured / at)))])


def _clock(gpu: GpuType, sample: PairSample) -> float:
    """Return the co-located GPU's frequency relative to the maximum (iGniter equations 9 and 10)."""
    hardware = gpu.hardware
    demand_w = sum(_power_w(gpu, at) for at in (sample.own, sample.other))
    excess_w = max(0.0, hardware.idle_power_w + demand_w - hardware.max_power_w)
    return 1.0 + hardware.alpha_f / hardware.max_frequency_mhz * excess_w


def _power_w(gpu: GpuType, at: Configuration) -> float:
    slope, intercept = gpu.model(at.model).power
    return slope * 1000.0 * at.batch / _at(alone_ms, gpu, at) + intercept


def _delay_ms(hardware: Hardware) -> float:
    """Return the scheduling delay per kernel beside one other workload (equation 6)."""
    return 2.0 * hardware.alpha_sch + hardware.beta_sch

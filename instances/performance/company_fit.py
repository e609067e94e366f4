"""Fit of interference to measured pairs: InSS's growths, gpulet's pair factor and the hybrid model's ``Company``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear, nnls

from instances.arrays import Flags, Floats
from instances.errors import InputError
from instances.gpu import Company, DnnModel, GpuType, Hardware, PairFactor, SoloProfile
from instances.grouping import grouped
from instances.measurements import Configuration, PairSample
from instances.performance.gpulet import tabulated_ms
from instances.performance.inss import regressed_ms
from instances.performance.model import alone_ms, transfers_ms
from instances.performance.solo_fit import rounded

FEWEST_SAMPLES = 30
"""Fewest samples to which ``fit_inss`` fits a model's own growths; otherwise the model has those fitted to all."""

SHRINKAGE = 1.0
"""Ridge weight, in samples, of the effects that apply to several cells; a cell is a model, batch and share. With weight
1, an effect that a single sample shows is halved."""

WEIGHTS = (SHRINKAGE, 0.3, 3.0, 0.1)
"""Weights in place of ``SHRINKAGE`` among which cross-validation chooses if there are few samples."""

MOST_CROSS_VALIDATED = 200
"""Largest number of samples with which the weight is chosen. With more samples, the error of cross-validation hardly
depends on the weight."""

MOST_PARTS = 10
"""Largest number of parts of the samples that cross-validation holds out in turn."""

LEAST_SHRINKAGE, MOST_SHRINKAGE = 0.3, 10.0
"""Range of the ridge weight of the cells' effects; see ``_cell_shrinkage``."""

Curve = Callable[[SoloProfile, Floats, Floats], Floats]
"""Function of a solo profile, batch and share that returns the time alone."""

Effect = tuple[str | int | float, ...]
"""Identifier of a term of the growth beside a neighbour: those of model, batch and share that the term depends on.

In a term of model and share without batch, the share is a text, so that it differs from a batch.
"""

OVERALL: Effect = ()
"""The effect on all configurations."""


@dataclass(frozen=True, slots=True)
class PairFigures:
    """Pair samples with the GPU times of the model ``own`` and the demands of the model ``other``, shape (samples,).

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
    def of(cls, gpu: GpuType, samples: Sequence[PairSample]) -> "PairFigures":
        """Compute the GPU times and the neighbours' demands of the samples.

        Raises
        ------
        InputError
            If a latency is not longer than the transfers.
        """
        own, other = [sample.own for sample in samples], [sample.other for sample in samples]
        transfer_ms = _of_each(
            lambda configuration: float(
                sum(transfers_ms(gpu, gpu.model(configuration.model), np.array(float(configuration.batch))))
            ),
            own,
        )
        gpu_ms = np.array([sample.latency_ms for sample in samples]) - transfer_ms
        if gpu_ms.min() <= 0.0:
            shortest = samples[int(np.argmin(gpu_ms))].own
            raise InputError(
                "pairs", f"{shortest}: the latency is below the transfers alone; expected a whole inference"
            )
        return cls(samples, gpu_ms, _of_each(lambda configuration: demand(gpu, configuration), other) / 100.0)


def _of_each(function: Callable[[Configuration], Any], configurations: Sequence[Configuration]) -> Floats:
    """Return the value of a function for each configuration; it is called once for equal configurations."""
    values = {configuration: function(configuration) for configuration in dict.fromkeys(configurations)}
    return np.array([values[configuration] for configuration in configurations])


def demand(gpu: GpuType, configuration: Configuration) -> tuple[float, float]:
    """Return the L2 and DRAM demand of a model in percent, by the linear functions of its solo profile."""
    solo = gpu.model(configuration.model).profiled(gpu.name)
    solo_rps = (
        1000.0
        * configuration.batch
        / float(alone_ms(solo, np.array(float(configuration.batch)), np.array(configuration.share_pct)))
    )
    return solo.l2[0] * solo_rps + solo.l2[1], solo.dram[0] * solo_rps + solo.dram[1]


def fit_inss(gpu: GpuType, samples: Sequence[PairSample]) -> dict[str, tuple[float, float]]:
    """Fit each model's relative growths per percent of L2 and DRAM, at least 0, by least squares of relative errors."""
    figures = PairFigures.of(gpu, samples)
    alone_times_ms = _of_each(
        lambda configuration: _time_ms(regressed_ms, gpu, configuration), [sample.own for sample in samples]
    )
    models = np.array([sample.own.model for sample in samples])
    ratio = figures.gpu_ms / alone_times_ms

    def growths(rows: Flags) -> tuple[float, float]:
        weight = 1.0 / ratio[rows]
        (l2, dram), _ = nnls(figures.demand[rows] * weight[:, None], (ratio[rows] - 1.0) * weight)
        return l2 / 100.0, dram / 100.0

    pooled = growths(np.ones(len(models), dtype=bool))
    return {
        name: growths(models == name) if np.sum(models == name) >= FEWEST_SAMPLES else pooled for name in gpu.models
    }


def fit_pair_factor(gpu: GpuType, samples: Sequence[PairSample]) -> tuple[PairFactor, float]:
    """Fit gpulet's five constants by least squares and return them with R squared.

    The two constants of the other gpulet are at least 0.
    """
    figures = PairFigures.of(gpu, samples)
    own, other = [sample.own for sample in samples], [sample.other for sample in samples]
    factor = figures.gpu_ms / _of_each(lambda configuration: _time_ms(tabulated_ms, gpu, configuration), own)
    own_usage, other_usage = (
        _of_each(lambda configuration: _usage_pct(gpu, configuration), group) / 100.0 for group in (own, other)
    )
    design = np.column_stack(
        [own_usage[:, 0], other_usage[:, 0], own_usage[:, 1], other_usage[:, 1], np.ones(len(factor))]
    )
    lower = [-np.inf, 0.0, -np.inf, 0.0, -np.inf]
    fitted = lsq_linear(design, factor, bounds=(lower, np.inf), method="bvls").x
    residual = factor - design @ fitted
    return PairFactor(*(float(constant) for constant in fitted)), float(1.0 - residual.var() / factor.var())


def _usage_pct(gpu: GpuType, configuration: Configuration) -> tuple[float, float]:
    """Return the L2 and DRAM utilisations in percent: those on the full GPU times the share."""
    solo = gpu.model(configuration.model).profiled(gpu.name)
    l2, dram = (float(np.interp(configuration.batch, solo.batch, full)) for full in (solo.l2_pct, solo.dram_pct))
    return l2 * configuration.share_pct / 100.0, dram * configuration.share_pct / 100.0


def _time_ms(curve: Curve, gpu: GpuType, configuration: Configuration) -> float:
    return float(
        curve(
            gpu.model(configuration.model).profiled(gpu.name),
            np.array(float(configuration.batch)),
            np.array(configuration.share_pct),
        )
    )


def fit_company(gpu: GpuType, samples: Sequence[PairSample]) -> dict[str, Company]:
    """Fit the times of every model beside others (``instances.performance.hybrid``).

    The growth beside a neighbour is a sum of two parts. The first has an overall effect and effects of batch, model,
    model with batch, model with share, and all three (the cell). The second is linear in the neighbour's L2 and DRAM
    demand. One ridge regression of relative errors fits all effects and slopes, each at least 0. The effect of
    a cell with few samples is shrunk towards 0, so that the more general effects determine its growth. How much effects
    are shrunk is chosen by cross-validation if there are few samples. A model without samples has the constant growth
    with the least relative error over all samples. Delay per kernel and throttling are not fitted: they are those of
    the GPU type.
    """
    figures = PairFigures.of(gpu, samples)
    configurations = [sample.own for sample in samples]
    alone_times_ms = _of_each(lambda configuration: _time_ms(alone_ms, gpu, configuration), configurations)
    own_w, other_w = (
        _of_each(lambda configuration: _power_w(gpu, configuration), group)
        for group in (configurations, [sample.other for sample in samples])
    )
    frequency = _frequency(gpu.hardware, own_w + other_w)
    delay_ms = np.array([gpu.model(sample.own.model).kernels * _delay_ms(gpu.hardware) for sample in samples])
    growth = (figures.gpu_ms * frequency - delay_ms) / alone_times_ms - 1.0
    weight = 1.0 / (growth + 1.0)
    columns = {
        effect: i
        for i, effect in enumerate(
            dict.fromkeys(effect for configuration in configurations for effect in effects_on(configuration))
        )
    }
    slope_position = {
        name: i for i, name in enumerate(dict.fromkeys(configuration.model for configuration in configurations))
    }
    design = np.zeros((len(configurations), len(columns) + 2 * len(slope_position)))
    for row, configuration in enumerate(configurations):
        design[row, [columns[effect] for effect in effects_on(configuration)]] = 1.0
        first_slope = len(columns) + 2 * slope_position[configuration.model]
        design[row, first_slope : first_slope + 2] = figures.demand[row]
    cell_columns = [columns[cell_of(configuration)] for configuration in configurations]
    cell_shrinkage = _cell_shrinkage(configurations, growth)

    def ridge(shrinkage: float) -> Floats:
        weights = np.full(design.shape[1], shrinkage)
        weights[cell_columns] = shrinkage if cell_shrinkage is None else cell_shrinkage
        weights[columns[OVERALL]] = 0.0
        weights[len(columns) :] = 0.0
        return weights

    design, target = design * weight[:, None], growth * weight
    fitted = _ridge_regression(design, target, ridge(_shrinkage(samples, design, target, ridge)))
    growth_of = {effect: float(fitted[i]) for effect, i in columns.items()}
    slopes = fitted[len(columns) :].reshape(-1, 2) / 100.0
    constant = max(0.0, float(np.average(growth, weights=weight**2)))
    return {
        name: _company(model, configurations, growth_of, slopes[slope_position[name]])
        if name in slope_position
        else _company_of_growth(model, np.full(model.solo.times_ms.shape, constant), np.zeros(2))
        for name, model in gpu.models.items()
        if model.solo is not None
    }


def _ridge_regression(design: Floats, target: Floats, ridge: Floats) -> Floats:
    """Return the coefficients of at least 0 with the least sum of squared errors and of weighted squares of their own.

    Parameters
    ----------
    ridge
        Weight of the square of each coefficient.
    """
    fitted, _ = nnls(
        np.concatenate([design, np.diag(np.sqrt(ridge))]),
        np.concatenate([target, np.zeros(len(ridge))]),
        maxiter=20 * design.shape[1],
    )
    return fitted


def _shrinkage(
    samples: Sequence[PairSample], design: Floats, target: Floats, ridge: Callable[[float], Floats]
) -> float:
    """Return the weight with the least mean absolute error of cross-validation; with many samples, ``SHRINKAGE``.

    The two samples of a pair are held out together.

    Parameters
    ----------
    ridge
        Function that returns the weights of all coefficients for a weight in place of ``SHRINKAGE``.
    """
    pairs = [frozenset((sample.own, sample.other)) for sample in samples]
    number = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    if len(samples) > MOST_CROSS_VALIDATED or len(number) == 1:
        return SHRINKAGE
    part = np.array([number[pair] for pair in pairs]) % MOST_PARTS

    def error(shrinkage: float) -> float:
        weights, errors = ridge(shrinkage), np.empty(len(target))
        for held_out in np.unique(part):
            seen = part != held_out
            errors[~seen] = target[~seen] - design[~seen] @ _ridge_regression(design[seen], target[seen], weights)
        return float(np.abs(errors).mean())

    return min(WEIGHTS, key=error)


def effects_on(configuration: Configuration) -> list[Effect]:
    """Return the effects that add up to the growth of a co-located configuration."""
    model, batch, share = configuration.model, configuration.batch, configuration.share_pct
    return [OVERALL, (batch,), (model,), (model, batch), (model, f"{share:g} %"), cell_of(configuration)]


def cell_of(configuration: Configuration) -> Effect:
    """Return the effect that applies only to this configuration."""
    return configuration.model, configuration.batch, configuration.share_pct


def _cell_shrinkage(configurations: Sequence[Configuration], growth: Floats) -> float | None:
    """Return the cells' ridge weight: the variance within cells divided by that between the cells of a model's batch.

    If the growth hardly differs between shares, the weight is large and the effects of cells are small. Return ``None``
    if no cell has several samples, or no batch several cells.
    """
    cells = grouped(zip(map(cell_of, configurations), growth.tolist(), strict=True))
    within = [np.var(values, ddof=1) for values in cells.values() if len(values) > 1]
    mean_growths = grouped((cell[:2], float(np.mean(values))) for cell, values in cells.items())
    between = [np.var(means, ddof=1) for means in mean_growths.values() if len(means) > 1]
    if not within or not between:
        return None
    noise = float(np.mean(within))
    signal = float(np.mean(between)) - noise * float(np.mean([1.0 / len(values) for values in cells.values()]))
    return float(np.clip(noise / max(signal, 1e-12), LEAST_SHRINKAGE, MOST_SHRINKAGE))


def _company(
    model: DnnModel, measured_configurations: Sequence[Configuration], growth_of: Mapping[Effect, float], slopes: Floats
) -> Company:
    """Return the times beside others on the model's grid, with the effects on the nearest measured batch and share."""
    solo = model.profiled("")  # without an error: the caller has checked that there is a solo profile
    batches, shares_pct = (
        np.unique([float(configuration.batch) for configuration in measured_configurations]),
        np.unique([configuration.share_pct for configuration in measured_configurations]),
    )
    nearest = [
        [
            Configuration(model.name, int(_nearest(batches, batch)), _nearest(shares_pct, share_pct))
            for share_pct in solo.share_pct
        ]
        for batch in solo.batch
    ]
    growth = [
        [sum(growth_of.get(effect, 0.0) for effect in effects_on(configuration)) for configuration in row]
        for row in nearest
    ]
    return _company_of_growth(model, np.array(growth), slopes)


def _company_of_growth(model: DnnModel, growth: Floats, slopes: Floats) -> Company:
    """Return the times beside others with these growths on the model's grid, and the slopes per percent of demand."""
    times_ms = model.profiled("").times_ms
    beside_ms = np.maximum(rounded(times_ms * (1.0 + growth)), times_ms)
    grid = tuple(tuple(map(float, row)) for row in beside_ms)
    return Company(grid, float(slopes[0]), float(slopes[1]))


def _nearest(measured: Floats, value: float) -> float:
    """Return the measured value with the ratio to ``value`` that is nearest to 1."""
    return float(measured[np.argmin(np.abs(np.log(measured / value)))])


def _frequency(hardware: Hardware, demand_w: Floats) -> Floats:
    """Return the GPU's frequency under the residents' power demand, relative to the maximum (equations 9 and 10)."""
    excess_w = np.maximum(0.0, hardware.idle_power_w + demand_w - hardware.max_power_w)
    return 1.0 + hardware.alpha_f / hardware.max_frequency_mhz * excess_w


def _power_w(gpu: GpuType, configuration: Configuration) -> float:
    slope, intercept = gpu.model(configuration.model).power
    return slope * 1000.0 * configuration.batch / _time_ms(alone_ms, gpu, configuration) + intercept


def _delay_ms(hardware: Hardware) -> float:
    """Return the scheduling delay per kernel beside one other workload (equation 6)."""
    return 2.0 * hardware.alpha_sch + hardware.beta_sch

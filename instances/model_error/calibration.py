"""Margins of a GPU type: calibrated on measured pairs that the fit did not see, by cross-validation."""

from collections.abc import Sequence

import numpy as np

from instances.arrays import Floats
from instances.gpu import GpuType
from instances.grouping import grouped
from instances.margin import MODEL, LevelMargins, Margin, at_level
from instances.measurements import Configuration, PairSample
from instances.model_error.cells import MeasuredCell, random_halves
from instances.model_error.experiment import Fit
from instances.model_error.margins import ConformalMargins, conformal_quantile, fewest_ratios
from instances.performance.company_fit import PairFigures
from instances.performance.margins import with_margins, with_slowdowns
from instances.performance.model import alone_ms
from instances.performance.profile_fit import validate_held_out
from instances.performance.validation import latencies_ms, validate

LEVELS = (0.8, 0.9, 0.95, 0.99)
"""Levels of the margins in catalogue entries."""


def calibrated_margins(gpu: GpuType, samples: Sequence[PairSample], hold_out: str = "rows") -> tuple[LevelMargins, ...]:
    """Return the margins of a fitted GPU type at every level for which there are enough samples.

    The ratios of measured to predicted GPU times come from cross-validation: each part of the samples is predicted by a
    fit to the other parts, so the fit has not seen the latencies that it predicts.

    Parameters
    ----------
    gpu
        GPU type whose interference is fitted to ``samples``.
    hold_out
        A key of ``instances.performance.profile_fit.HELD_OUT``.
    """
    if len(samples) < fewest_ratios(LEVELS[0]):
        return ()
    gpu_ms = PairFigures.of(gpu, samples).gpu_ms
    transfer_ms = np.array([sample.latency_ms for sample in samples]) - gpu_ms
    ratios = (gpu_ms / (validate_held_out(gpu, MODEL, samples, hold_out).predicted_ms - transfer_ms)).tolist()
    return _margins([sample.own for sample in samples], ratios, (gpu_ms / _alone_ms(gpu, samples)).tolist())


def margins_of_seen_slowdowns(gpu: GpuType, samples: Sequence[PairSample]) -> tuple[LevelMargins, ...]:
    """Return the margins on the largest measured slowdown of each model and batch.

    They are computed from the ratio of each slowdown to the largest other slowdown of the same model and batch.
    """
    configurations = [sample.own for sample in samples]
    slowdowns = slowdowns_beside(gpu, samples)
    rows_by_batch = grouped(
        ((configuration.model, configuration.batch), row) for row, configuration in enumerate(configurations)
    )
    compared = [
        (configurations[row], slowdowns[row] / max(slowdowns[other] for other in batch_rows if other != row))
        for batch_rows in rows_by_batch.values()
        for row in batch_rows
        if len(batch_rows) > 1
    ]
    if not compared:
        return ()
    compared_configurations, ratios = zip(*compared, strict=True)
    return _margins(compared_configurations, ratios, slowdowns)


def slowdowns_beside(gpu: GpuType, samples: Sequence[PairSample]) -> list[float]:
    """Return the ratio of each sample's measured GPU time to its GPU time alone by the solo profile."""
    return [float(ratio) for ratio in PairFigures.of(gpu, samples).gpu_ms / _alone_ms(gpu, samples)]


def covered_by_fit(
    cells: Sequence[MeasuredCell], fit: Fit, levels: Sequence[float], splits: int
) -> dict[float, list[float]]:
    """Return, by level, the fraction of one half's latencies that a fit to the other half covers, for each division.

    The fit has margins calibrated on its own half.

    Parameters
    ----------
    cells
        Cells; the two sides of a cell are in the same half.
    fit
        Function that fits a GPU type to cells.
    levels
        Levels of ``LEVELS``; the result has those for which a half has enough latencies.
    splits
        Number of divisions; their seeds are 0, 1 and so on.
    """
    covered: dict[float, list[float]] = {}
    for seed in range(splits):
        seen, unseen = random_halves(cells, seed)
        gpu = fit(seen)
        rows = [sample for cell in unseen for sample in cell.samples]
        for margins in calibrated_margins(gpu, [sample for cell in seen for sample in cell.samples]):
            if margins.level in levels:
                relative = validate(with_margins(gpu, margins), MODEL, rows).relative
                covered.setdefault(margins.level, []).append(float(np.mean(relative >= 0.0)))
    return covered


def with_seen_slowdowns(gpu: GpuType, samples: Sequence[PairSample]) -> GpuType:
    """Return a GPU type that predicts, beside any neighbours, the largest measured slowdown of a model and batch."""
    largest: dict[str, dict[int, float]] = {}
    for sample, slowdown in zip(samples, slowdowns_beside(gpu, samples), strict=True):
        by_batch = largest.setdefault(sample.own.model, {})
        by_batch[sample.own.batch] = max(slowdown, by_batch.get(sample.own.batch, 1.0))
    return with_slowdowns(gpu, largest)


def calibrated_type(gpu: GpuType, samples: Sequence[PairSample], level: float) -> tuple[GpuType, LevelMargins] | None:
    """Return a GPU type with its margins at ``level``, or ``None`` if there are too few samples.

    There are two candidates: ``gpu``, whose hybrid model is fitted to the samples, and a type with the largest measured
    slowdown of each model and batch, because with few samples the fit shrinks too much towards the mean growth. The
    result is the one with the lower mean ratio of latency with margins to measured latency.
    """
    candidates = []
    for candidate, margins_by_level in (
        (gpu, calibrated_margins(gpu, samples)),
        (with_seen_slowdowns(gpu, samples), margins_of_seen_slowdowns(gpu, samples)),
    ):
        if (margins := at_level(margins_by_level, level)) is not None:
            groups = [(sample.own, sample.other) for sample in samples]
            planned_ms = [times[0] for times in latencies_ms(with_margins(candidate, margins), MODEL, groups)]
            mean_ratio = np.mean(np.array(planned_ms) / [sample.latency_ms for sample in samples])
            candidates.append((float(mean_ratio), candidate, margins))
    return min(candidates, key=lambda candidate: candidate[0])[1:] if candidates else None


def _margins(
    configurations: Sequence[Configuration], ratios: Sequence[float], slowdowns: Sequence[float]
) -> tuple[LevelMargins, ...]:
    """Return the margins at every level for which there are enough ratios.

    Parameters
    ----------
    configurations, ratios
        Configurations, and for each the ratio of measured to predicted GPU time, or of a slowdown to the largest other
        slowdown.
    slowdowns
        Ratios of measured GPU times to GPU times alone.
    """
    levels = [level for level in LEVELS if np.isfinite(conformal_quantile(ratios, level))]
    measured_batches = {
        model: sorted({configuration.batch for configuration in configurations if configuration.model == model})
        for model in dict.fromkeys(configuration.model for configuration in configurations)
    }
    at_levels = []
    for level in levels:
        margins = ConformalMargins.of(configurations, ratios, level)
        by_batch = {
            model: {batch: _at_least_one(margins.margin(model, batch)) for batch in batches}
            for model, batches in measured_batches.items()
        }
        flat = max(1.0, conformal_quantile(slowdowns, level))
        at_levels.append(LevelMargins(level, len(slowdowns), by_batch, round(flat, 4)))
    return tuple(at_levels)


def _alone_ms(gpu: GpuType, samples: Sequence[PairSample]) -> Floats:
    """Return the GPU times alone of the samples' own configurations, by their solo profiles."""
    times_ms = {
        configuration: float(
            alone_ms(
                gpu.model(configuration.model).profiled(gpu.name),
                np.array(float(configuration.batch)),
                np.array(configuration.share_pct),
            )
        )
        for configuration in dict.fromkeys(sample.own for sample in samples)
    }
    return np.array([times_ms[sample.own] for sample in samples])


def _at_least_one(margin: Margin) -> Margin:
    """Return a margin whose factor is at least 1, so that it never shortens a prediction, with four decimals."""
    return Margin(round(max(1.0, margin.factor), 4), margin.rows, margin.basis)

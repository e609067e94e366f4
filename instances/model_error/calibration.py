"""Margins of a GPU type: calibrated on measured pairs that the fit did not see, by cross-validation."""

from collections.abc import Sequence

import numpy as np

from instances.arrays import Floats
from instances.gpu import GpuType
from instances.margin import LevelMargins, Margin
from instances.measurements import PairSample
from instances.model_error.margins import ConformalMargins, conformal_quantile
from instances.performance.company_fit import PairFigures
from instances.performance.model import alone_ms
from instances.performance.profile_fit import validate_held_out

LEVELS = (0.8, 0.9, 0.95, 0.99)
"""Levels of the margins in catalogue entries."""

MODEL = "hybrid"
"""Performance model whose predictions have margins."""


def calibrated_margins(gpu: GpuType, samples: Sequence[PairSample], hold_out: str = "rows") -> tuple[LevelMargins, ...]:
    """Return the margins of a fitted GPU type at every level for which there are enough samples.

    The ratios of measured to predicted GPU times are those of cross-validation: a fit to the other parts of the samples
    predicts each part. So the errors are those of latencies that the fit has not seen.

    Parameters
    ----------
    gpu
        GPU type whose interference is fitted to ``samples``.
    hold_out
        A key of ``instances.performance.profile_fit.HELD_OUT``.
    """
    levels = [level for level in LEVELS if np.isfinite(conformal_quantile([1.0] * len(samples), level))]
    if not levels:
        return ()
    sides = [sample.own for sample in samples]
    gpu_ms = PairFigures.of(gpu, samples).gpu_ms
    transfer_ms = np.array([sample.latency_ms for sample in samples]) - gpu_ms
    ratios = (gpu_ms / (validate_held_out(gpu, MODEL, samples, hold_out).predicted_ms - transfer_ms)).tolist()
    slowdowns = (gpu_ms / _alone_ms(gpu, samples)).tolist()
    measured_batches = {
        model: sorted({side.batch for side in sides if side.model == model})
        for model in dict.fromkeys(side.model for side in sides)
    }
    found = []
    for level in levels:
        margins = ConformalMargins.of(sides, ratios, level)
        by_batch = {
            model: {batch: _at_least_one(margins.margin(model, batch)) for batch in batches}
            for model, batches in measured_batches.items()
        }
        flat = max(1.0, conformal_quantile(slowdowns, level))
        found.append(LevelMargins(level, len(samples), by_batch, round(flat, 4)))
    return tuple(found)


def _alone_ms(gpu: GpuType, samples: Sequence[PairSample]) -> Floats:
    """Return the GPU times alone of the samples' own configurations, by their solo profiles."""
    times_ms = {
        side: float(
            alone_ms(gpu.model(side.model).profiled(gpu.name), np.array(float(side.batch)), np.array(side.share_pct))
        )
        for side in dict.fromkeys(sample.own for sample in samples)
    }
    return np.array([times_ms[sample.own] for sample in samples])


def _at_least_one(margin: Margin) -> Margin:
    """Return a margin that never shortens a prediction, to four digits."""
    return Margin(round(max(1.0, margin.factor), 4), margin.rows, margin.basis)

"""Validation of a performance model against measured co-locations: relative errors of whole inference times."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Floats
from instances.gpu import GpuType
from instances.measurements import PairSample
from instances.performance.company_fit import fit_company, fit_inss, fit_pair_factor
from instances.performance.prediction import latencies_ms

OUTLYING = 5.0
"""Threshold of outliers: distance from the median error in units of the scaled median distance."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors ``predicted / observed - 1`` of samples, shape (samples,) each."""

    samples: Sequence[PairSample]
    predicted_ms: Floats
    relative: Floats

    @classmethod
    def of(cls, samples: Sequence[PairSample], predicted_ms: Floats) -> "Errors":
        """Compare predictions with observations."""
        return cls(samples, predicted_ms, predicted_ms / np.array([s.latency_ms for s in samples]) - 1.0)

    @property
    def summary(self) -> dict[str, float]:
        """Number of rows, and mean, P50, P90, P95 and largest absolute relative error."""
        size = np.abs(self.relative)
        p50, p90, p95 = np.quantile(size, (0.5, 0.9, 0.95))
        found = {"mean": size.mean(), "p50": p50, "p90": p90, "p95": p95, "max": size.max()}
        return {"rows": len(size), **{name: float(value) for name, value in found.items()}}

    def by(self, key: Callable[[PairSample], Hashable]) -> dict[Hashable, dict[str, float]]:
        """Return a summary for each value of ``key``, in the order of first occurrence."""
        keys = [key(sample) for sample in self.samples]
        return {value: self.only(np.array([k == value for k in keys])).summary for value in dict.fromkeys(keys)}

    def only(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Errors":
        """Return the samples that ``keep`` selects."""
        index = np.arange(len(self.samples))[keep]
        return Errors([self.samples[i] for i in index], self.predicted_ms[index], self.relative[index])

    def worst(self, count: int) -> "Errors":
        """Return the ``count`` samples with the largest errors, largest first."""
        return self.only(np.argsort(-np.abs(self.relative), kind="stable")[:count])

    @property
    def outliers(self) -> "Errors":
        """Samples with outlying errors, largest first."""
        distance = np.abs(self.relative - np.median(self.relative))
        far = distance > OUTLYING * 1.4826 * np.median(distance)
        return self.only(far).worst(int(far.sum()))


def validate(gpu: GpuType, model_name: str, samples: Sequence[PairSample]) -> Errors:
    """Compare a performance model with measured pairs.

    Raises
    ------
    InputError
        If the catalogue lacks a model, a batch or figures that the performance model needs.
    """
    predicted = latencies_ms(gpu, model_name, [(s.own, s.other) for s in samples])
    return Errors.of(samples, np.array([group[0] for group in predicted]))


def fit_pairs(gpu: GpuType, samples: Sequence[PairSample]) -> GpuType:
    """Fit the interference figures to measured pairs, on a GPU type whose models have solo profiles."""
    inss, (pair, _), company = fit_inss(gpu, samples), fit_pair_factor(gpu, samples), fit_company(gpu, samples)
    models = {name: replace(m, inss=inss[name], company=company.get(name)) for name, m in gpu.models.items()}
    return replace(gpu, models=models, pair=pair)


FOLDS = 10
"""A division of ``rows`` into parts."""

HELD_OUT: Mapping[str, Callable[[int, PairSample], Hashable]] = {
    "rows": lambda row, _: row % FOLDS,
    "pair": lambda _, sample: sample.pair,
    "batch": lambda _, sample: sample.own.batch,
    "neighbour-batch": lambda _, sample: sample.other.batch,
}
"""Sets held out in turn: every tenth row, or all rows of two models, of an own batch or of a neighbour's batch."""


def validate_held_out(gpu: GpuType, model_name: str, samples: Sequence[PairSample], by: str) -> Errors:
    """Cross-validate on measured pairs: predict each part by a fit to all others.

    The solo profiles stay those of ``gpu``; under ``igniter`` all figures do.

    Parameters
    ----------
    gpu, model_name, samples
        See ``validate``.
    by
        A key of ``HELD_OUT``.
    """
    part = [HELD_OUT[by](row, sample) for row, sample in enumerate(samples)]
    predicted = np.empty(len(samples))
    for value in dict.fromkeys(part):
        held = [row for row in range(len(samples)) if part[row] == value]
        fitted = fit_pairs(gpu, [sample for row, sample in enumerate(samples) if part[row] != value])
        predicted[held] = validate(fitted, model_name, [samples[row] for row in held]).predicted_ms
    return Errors.of(samples, predicted)

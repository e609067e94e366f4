"""Predictions of a performance model for measured co-locations, and their relative errors."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.errors import InputError, unknown_name
from instances.gpu import GpuType
from instances.interference import gpu_times_ms
from instances.measurements import Configuration, PairSample
from instances.tables import configuration_tables

OUTLYING = 5.0
"""Least distance of an outlier's error from the median error, in estimated standard deviations: 1.4826 times the median
distance."""


def summary(relative: Floats) -> dict[str, float]:
    """Return the number of relative errors, and the mean, P50, P90, P95 and maximum of their absolute values."""
    size = np.abs(relative)
    p50, p90, p95 = np.quantile(size, (0.5, 0.9, 0.95))
    figures = {"mean": size.mean(), "p50": p50, "p90": p90, "p95": p95, "max": size.max()}
    return {"rows": len(size), **{name: float(value) for name, value in figures.items()}}


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors ``predicted / observed - 1`` of samples, shape (samples,) each."""

    samples: Sequence[PairSample]
    predicted_ms: Floats
    relative: Floats

    @classmethod
    def of(cls, samples: Sequence[PairSample], predicted_ms: Floats) -> "Errors":
        """Compare predictions with observations."""
        return cls(samples, predicted_ms, predicted_ms / np.array([sample.latency_ms for sample in samples]) - 1.0)

    @property
    def summary(self) -> dict[str, float]:
        """Number, mean, quantiles and maximum; see the function ``summary``."""
        return summary(self.relative)

    def by(self, key: Callable[[PairSample], Hashable]) -> dict[Any, dict[str, float]]:
        """Return a summary for each value of ``key``, in the order of first occurrence."""
        keys = [key(sample) for sample in self.samples]
        return {
            value: self.only(np.array([sample_key == value for sample_key in keys])).summary
            for value in dict.fromkeys(keys)
        }

    def only(self, selected: Flags | Ints) -> "Errors":
        """Return the errors of the samples at the positions or flags ``selected``."""
        positions = np.arange(len(self.samples))[selected]
        return Errors([self.samples[i] for i in positions], self.predicted_ms[positions], self.relative[positions])

    def worst(self, count: int) -> "Errors":
        """Return the ``count`` samples with the largest errors, largest first."""
        return self.only(np.argsort(-np.abs(self.relative), kind="stable")[:count])

    @property
    def outliers(self) -> "Errors":
        """Samples with outlying errors, largest first."""
        distance = np.abs(self.relative - np.median(self.relative))
        far = distance > OUTLYING * 1.4826 * np.median(distance)
        return self.only(far).worst(int(far.sum()))


def latencies_ms(gpu: GpuType, model_name: str, groups: Sequence[Sequence[Configuration]]) -> list[Floats]:
    """Return the predicted inference time, with transfers, of every configuration; each group is on one GPU.

    Returns
    -------
    list of numpy.ndarray
        Milliseconds, in the order of each group.

    Raises
    ------
    InputError
        If the catalogue lacks a DNN model, a batch or figures that the performance model needs.
    """
    row_of = {
        configuration: i
        for i, configuration in enumerate(dict.fromkeys(member for group in groups for member in group))
    }
    # In these tables, configuration i is row i at batch index 1 and share index 1.
    tables = configuration_tables(gpu, model_name, list(row_of))
    latencies = []
    for group in groups:
        rows = np.array([row_of[configuration] for configuration in group], dtype=np.int64)
        ones = np.ones(len(group), dtype=np.int64)
        times_ms = np.empty(len(group))
        gpu_times_ms(tables, rows, ones, ones, len(group), times_ms)
        latencies.append(times_ms + tables.transfer_ms[rows, 1])
    return latencies


def check_known(gpu: GpuType, configurations: Sequence[Configuration], where: str) -> None:
    """Check that the GPU type has figures for all ``configurations``.

    Raises
    ------
    InputError
        If the GPU type lacks a model, or a batch exceeds the figures; ``where`` names the file.
    """
    for configuration in configurations:
        if configuration.model not in gpu.models:
            raise unknown_name(where, f"model on {gpu.name}", configuration.model, list(gpu.models))
        if configuration.batch > gpu.models[configuration.model].max_batch:
            largest_batch = gpu.models[configuration.model].max_batch
            raise InputError(where, f"{configuration}: figures on {gpu.name} exist up to batch {largest_batch}")


def validate(gpu: GpuType, model_name: str, samples: Sequence[PairSample]) -> Errors:
    """Compare a performance model with measured pairs.

    Raises
    ------
    InputError
        If the catalogue lacks a DNN model, a batch or figures that the performance model needs.
    """
    predicted = latencies_ms(gpu, model_name, [(sample.own, sample.other) for sample in samples])
    return Errors.of(samples, np.array([group[0] for group in predicted]))

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
"""Least distance of an outlier's error from the median error, in multiples of 1.4826 times the median distance."""


def summary(relative: Floats) -> dict[str, float]:
    """Return the number of relative errors, and the mean, P50, P90, P95 and maximum of their sizes."""
    size = np.abs(relative)
    p50, p90, p95 = np.quantile(size, (0.5, 0.9, 0.95))
    found = {"mean": size.mean(), "p50": p50, "p90": p90, "p95": p95, "max": size.max()}
    return {"rows": len(size), **{name: float(value) for name, value in found.items()}}


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
        """See ``summary``."""
        return summary(self.relative)

    def by(self, key: Callable[[PairSample], Hashable]) -> dict[Any, dict[str, float]]:
        """Return a summary for each value of ``key``, in the order of first occurrence."""
        keys = [key(sample) for sample in self.samples]
        return {value: self.only(np.array([k == value for k in keys])).summary for value in dict.fromkeys(keys)}

    def only(self, keep: Flags | Ints) -> "Errors":
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


def latencies_ms(gpu: GpuType, model_name: str, groups: Sequence[Sequence[Configuration]]) -> list[Floats]:
    """Predict the inference time ``t_gpu + x`` of every configuration in groups, each on one GPU.

    Returns
    -------
    list of numpy.ndarray
        Milliseconds, in the order of each group.

    Raises
    ------
    InputError
        If the catalogue lacks a model, a batch or figures that the performance model needs.
    """
    row = {configuration: i for i, configuration in enumerate(dict.fromkeys(c for group in groups for c in group))}
    tables = configuration_tables(gpu, model_name, list(row))
    found = []
    for group in groups:
        index = np.array([row[configuration] for configuration in group], dtype=np.int64)
        ones = np.ones(len(group), dtype=np.int64)
        times_ms = np.empty(len(group))
        gpu_times_ms(tables, index, ones, ones, len(group), times_ms)
        found.append(times_ms + tables.transfer_ms[index, 1])
    return found


def check_known(gpu: GpuType, configurations: Sequence[Configuration], where: str) -> None:
    """Check that the GPU type has figures for all ``configurations``.

    Raises
    ------
    InputError
        If it lacks a model, or a batch exceeds its figures; ``where`` names the file.
    """
    for configuration in configurations:
        if configuration.model not in gpu.models:
            raise unknown_name(where, f"model on {gpu.name}", configuration.model, list(gpu.models))
        if configuration.batch > gpu.models[configuration.model].max_batch:
            top = gpu.models[configuration.model].max_batch
            raise InputError(where, f"{configuration}: figures on {gpu.name} exist up to batch {top}")


def validate(gpu: GpuType, model_name: str, samples: Sequence[PairSample]) -> Errors:
    """Compare a performance model with measured pairs.

    Raises
    ------
    InputError
        If the catalogue lacks a model, a batch or figures that the performance model needs.
    """
    predicted = latencies_ms(gpu, model_name, [(s.own, s.other) for s in samples])
    return Errors.of(samples, np.array([group[0] for group in predicted]))

"""Predictions of a performance model for measured co-locations: whole inference times at exact percentages."""

from collections.abc import Sequence

import numpy as np

from instances.arrays import Floats
from instances.errors import InputError, unknown_name
from instances.gpu import GpuType
from instances.interference import gpu_times_ms
from instances.measurements import Configuration
from instances.tables import configuration_tables


def latencies_ms(gpu: GpuType, model_name: str, groups: Sequence[Sequence[Configuration]]) -> list[Floats]:
    """Predict the inference time ``t_gpu + x`` of every configuration in groups, each on one GPU.

    Parameters
    ----------
    gpu
        The GPU type.
    model_name
        The performance model.
    groups
        Configurations on one GPU together.

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
    """Check that the catalogue has figures for all ``configurations``.

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

"""Interference of a catalogued GPU type, carried over to times alone that a user measured on this type."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from instances.gpu import Company, DnnModel, GpuType
from instances.performance.hybrid import HybridModel


def with_known_interference(gpu: GpuType, catalogued: GpuType, slowdown: float) -> GpuType:
    """Return a GPU type with measured times alone, and with the hybrid model's interference of the catalogue.

    A model of the catalogue is slowed down beside others as much as there, at every batch and share. Another model
    takes ``slowdown`` times its time alone. Without measured demands it has the largest ones of the catalogue.

    Parameters
    ----------
    gpu
        GPU type whose models have solo profiles.
    catalogued
        The same GPU type in the catalogue, with measured interference.
    """
    most = {
        column: max(max(getattr(model.solo, f"{column}_pct")) for model in catalogued.models.values() if model.solo)
        for column in ("l2", "dram")
    }
    models = {
        name: model
        if model.company is not None
        else _as_catalogued(model, catalogued, catalogued.models[name])
        if name in catalogued.models
        else _new(model, slowdown, most)
        for name, model in gpu.models.items()
    }
    return replace(gpu, hardware=catalogued.hardware, models=models, margins=catalogued.margins)


def _as_catalogued(model: DnnModel, catalogued: GpuType, like: DnnModel) -> DnnModel:
    """Return a model whose times alone grow beside others as those of the same model in the catalogue."""
    solo, company = model.profiled(catalogued.name), like.company
    if company is None:
        return model
    batch = np.minimum(np.array(solo.batch, dtype=float), like.max_batch)[:, None]
    factor = HybridModel().demand(catalogued, like, batch, np.array(solo.share_pct)[None, :]).company
    beside_ms = np.maximum.accumulate((solo.times_ms * factor)[:, ::-1], axis=1)[:, ::-1]
    grid = tuple(tuple(map(float, row)) for row in beside_ms)
    known = like.profiled(catalogued.name)
    l2, dram = solo.l2 if any(solo.l2) else known.l2, solo.dram if any(solo.dram) else known.dram
    return replace(
        model,
        solo=replace(solo, l2=l2, dram=dram),
        company=Company(grid, company.alpha_l2, company.alpha_dram),
        kernels=like.kernels,
        power=like.power,
    )


def _new(model: DnnModel, slowdown: float, most_pct: Mapping[str, float]) -> DnnModel:
    """Return a model without measured interference."""
    assert model.solo is not None  # every measured model has a profile
    l2 = model.solo.l2 if any(model.solo.l2) else (0.0, most_pct["l2"])
    dram = model.solo.dram if any(model.solo.dram) else (0.0, most_pct["dram"])
    grid = tuple(tuple(slowdown * time_ms for time_ms in row) for row in model.solo.gpu_ms)
    return replace(model, solo=replace(model.solo, l2=l2, dram=dram), company=Company(grid, 0.0, 0.0))

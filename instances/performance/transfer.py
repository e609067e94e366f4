"""Interference of a GPU type in the catalogue, added to times alone that a user measured on this type."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from instances.gpu import Company, DnnModel, GpuType
from instances.performance.hybrid import HybridModel


def with_known_interference(gpu: GpuType, catalogued: GpuType, slowdown: float) -> GpuType:
    """Return a GPU type with measured times alone, and with the hybrid model's interference of the catalogue.

    At every batch and share, a model in the catalogue is slowed down beside others as much as in the catalogue. A model
    outside the catalogue takes ``slowdown`` times its time alone beside others; if its demands were not measured, it
    has the largest demands in the catalogue. A model that already has times beside others does not change.

    Parameters
    ----------
    gpu
        GPU type whose models have solo profiles.
    catalogued
        The same GPU type in the catalogue, with measured interference.
    """
    largest_pct = {
        column: max(max(getattr(model.solo, f"{column}_pct")) for model in catalogued.models.values() if model.solo)
        for column in ("l2", "dram")
    }
    models = {}
    for name, model in gpu.models.items():
        if model.company is not None:
            models[name] = model
        elif name in catalogued.models:
            models[name] = _as_catalogued(model, catalogued, catalogued.models[name])
        else:
            models[name] = _with_slowdown(model, slowdown, largest_pct)
    return replace(gpu, hardware=catalogued.hardware, models=models, margins=catalogued.margins)


def _as_catalogued(model: DnnModel, catalogued: GpuType, catalogued_model: DnnModel) -> DnnModel:
    """Return a model whose times alone grow beside others as those of the same model in the catalogue."""
    solo, company = model.profiled(catalogued.name), catalogued_model.company
    if company is None:
        return model
    batch = np.minimum(np.array(solo.batch, dtype=float), catalogued_model.max_batch)[:, None]
    factor = HybridModel().demand(catalogued, catalogued_model, batch, np.array(solo.share_pct)[None, :]).company
    beside_ms = np.maximum.accumulate((solo.times_ms * factor)[:, ::-1], axis=1)[:, ::-1]
    grid = tuple(tuple(map(float, row)) for row in beside_ms)
    catalogued_solo = catalogued_model.profiled(catalogued.name)
    l2 = solo.l2 if any(solo.l2) else catalogued_solo.l2
    dram = solo.dram if any(solo.dram) else catalogued_solo.dram
    return replace(
        model,
        solo=replace(solo, l2=l2, dram=dram),
        company=Company(grid, company.alpha_l2, company.alpha_dram),
        kernels=catalogued_model.kernels,
        power=catalogued_model.power,
    )


def _with_slowdown(model: DnnModel, slowdown: float, largest_pct: Mapping[str, float]) -> DnnModel:
    """Return a model that takes ``slowdown`` times its time alone beside any others."""
    assert model.solo is not None  # every measured model has a profile
    l2 = model.solo.l2 if any(model.solo.l2) else (0.0, largest_pct["l2"])
    dram = model.solo.dram if any(model.solo.dram) else (0.0, largest_pct["dram"])
    grid = tuple(tuple(slowdown * time_ms for time_ms in row) for row in model.solo.gpu_ms)
    return replace(model, solo=replace(model.solo, l2=l2, dram=dram), company=Company(grid, 0.0, 0.0))

"""Margins in plans: GPU types whose GPU times beside others are longer by the margins of a level."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

from instances.errors import FieldName, InputError
from instances.gpu import Company, DnnModel, GpuType
from instances.instance import GpuPool, Instance
from instances.margin import MODEL, LevelMargins, at_level, largest_of_nearest


def level_margins(gpu: GpuType, level: float) -> LevelMargins | None:
    """Return the margins of the lowest level that is at least ``level``, or ``None`` if all levels are lower.

    Raises
    ------
    InputError
        If ``level`` is not greater than 0 and less than 1.
    """
    check_level(level)
    return at_level(gpu.margins, level)


def check_level(level: float) -> None:
    """Raise ``InputError`` if the level of a margin is not greater than 0 and less than 1."""
    if not 0.0 < level < 1.0:
        raise InputError(FieldName("margin"), f"is {level:g}; expected a fraction between 0 and 1, or 0 for no margin")


def planned_with_margins(instance: Instance, level: float) -> Instance:
    """Return an instance whose GPU times beside others are longer by the margins of a level.

    Raises
    ------
    InputError
        If the level is out of range, the performance model is not the hybrid one, or a GPU type has no such margins.
    """
    if instance.performance_model != MODEL:
        raise InputError(
            FieldName("margin"),
            f'{instance.name} has the performance model "{instance.performance_model}"; only "{MODEL}" has margins',
        )

    def longer(pool: GpuPool) -> GpuPool:
        margins = level_margins(pool.type, level)
        if margins is None:
            known = ", ".join(f"{of_level.level:g}" for of_level in pool.type.margins)
            remedy = f"expected at most the largest of {known}" if known else "the type has no margins"
            raise InputError(FieldName("margin"), f"is {level:g} for {pool.type.name} of {instance.name}; {remedy}")
        return replace(pool, type=with_margins(pool.type, margins))

    return replace(instance, gpus=tuple(longer(pool) for pool in instance.gpus))


def with_margins(gpu: GpuType, margins: LevelMargins) -> GpuType:
    """Return a GPU type whose hybrid model has the margins; no other performance model changes.

    The GPU time of a batch beside others grows at least by the margin of its model and batch. Sensitivity and kernels
    have one value for all batches of a model, so they grow by the largest margin. A model without measured rows has
    ``margins.flat`` times its time alone beside any neighbours.
    """
    models = {
        name: _longer(model, margins) if name in margins.by_batch else _slowed(model, lambda _: margins.flat)
        for name, model in gpu.models.items()
    }
    applied = f"; hybrid model with margins at the level {margins.level:g} of {margins.rows} measured latencies"
    origin = replace(gpu.provenance, source=gpu.provenance.source + applied)
    return replace(gpu, models=models, provenance=origin, margins=())


def with_slowdowns(gpu: GpuType, by_batch: Mapping[str, Mapping[int, float]]) -> GpuType:
    """Return a GPU type with slowdowns beside any neighbours by model and measured batch.

    A model without slowdowns in ``by_batch`` has the largest slowdown of all.
    """
    largest = max(max(slowdowns.values()) for slowdowns in by_batch.values())

    def slowed(model: DnnModel) -> DnnModel:
        measured = by_batch.get(model.name)
        return _slowed(model, lambda batch: largest_of_nearest(measured, batch) if measured else largest)

    return replace(gpu, models={name: slowed(model) for name, model in gpu.models.items()})


def with_floor(gpu: GpuType, slowdown: float) -> GpuType:
    """Return a GPU type whose hybrid model predicts at least ``slowdown`` times the time alone beside others."""

    def floored(model: DnnModel) -> DnnModel:
        solo, company = model.solo, model.company
        if solo is None or company is None:
            return model
        rows = (
            tuple(max(beside_ms, slowdown * alone_ms) for beside_ms, alone_ms in zip(beside_row, solo_row, strict=True))
            for beside_row, solo_row in zip(company.gpu_ms, solo.gpu_ms, strict=True)
        )
        return replace(model, company=replace(company, gpu_ms=tuple(rows)))

    return replace(gpu, models={name: floored(model) for name, model in gpu.models.items()})


def _longer(model: DnnModel, margins: LevelMargins) -> DnnModel:
    """Return a model with measured rows, whose times beside others are longer by the margins of its batches."""
    solo, company = model.solo, model.company
    if solo is None or company is None:
        return model
    factors = [margins.factor(model.name, batch) for batch in solo.batch]
    rows = zip(company.gpu_ms, factors, strict=True)
    return replace(
        model,
        kernels=ceil(max(factors) * model.kernels),
        company=Company(
            tuple(tuple(factor * time_ms for time_ms in row) for row, factor in rows),
            max(factors) * company.alpha_l2,
            max(factors) * company.alpha_dram,
        ),
    )


def _slowed(model: DnnModel, slowdown: Callable[[int], float]) -> DnnModel:
    """Return a model whose time beside any neighbours is its time alone times a slowdown, a function of the batch."""
    solo = model.solo
    if solo is None:
        return model
    rows = zip(solo.batch, solo.gpu_ms, strict=True)
    grid = tuple(tuple(slowdown(batch) * time_ms for time_ms in row) for batch, row in rows)
    return replace(model, kernels=0, company=Company(grid, 0.0, 0.0))

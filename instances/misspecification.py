"""Misspecified performance models: the true instance, whose times and demands differ from those the planner uses."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from instances.errors import FieldName, InputError
from instances.gpu import DnnModel, GpuType, Partition
from instances.instance import Instance
from instances.performance import performance_model as model_named

MOST_ERROR = 0.9
"""Largest relative parameter error; larger errors would bring factors close to 0."""


def misspecified(instance: Instance, truth: str | None = None, error: float = 0.0, seed: int = 0) -> Instance:
    """Return the true instance for the planner's instance.

    Parameters
    ----------
    truth
        The true performance model of the GPUs; by default the planner's.
    error
        Relative parameter error. Every DNN model gets five factors, each uniform in ``[1 - error, 1 + error]``: for its
        times, its power, its L2 demand, its DRAM demand, and its sensitivity to others' demands.
    seed
        Seed of these factors. A factor differs from 1 in proportion to ``error``; with the same seed, it stays above or
        below 1.

    Raises
    ------
    InputError
        If the catalogue has no figures for ``truth``, the error is out of range, or the GPUs are cut into
        MIG instances, which have measured tables only.
    """
    if truth is not None:
        model_named(truth, FieldName("truth"))
    if not 0.0 <= error <= MOST_ERROR:
        raise InputError(FieldName("error"), f"{error:g}; expected a fraction from 0 to {MOST_ERROR}")
    changed = truth not in (None, instance.performance_model) or error > 0.0
    if changed and instance.partition is Partition.MIG:
        raise InputError(
            f"{instance.name}: performance_model",
            "cannot be misspecified for MIG instances: they have a measured table only",
        )
    pools = tuple(replace(pool, type=_perturbed(pool.type, error, seed)) for pool in instance.gpus)
    return replace(
        instance,
        gpus=pools if error > 0.0 else instance.gpus,
        performance_model=truth or instance.performance_model,
    )


def slowed(instance: Instance, factor: float) -> Instance:
    """Return the true instance whose GPU times are all ``factor`` times the planner's; transfers do not change."""
    return instance if factor == 1.0 else _with_models(instance, lambda model: _scaled(model, factor))


def with_sensitivity(instance: Instance, factor: float) -> Instance:
    """Return the true instance whose DNN models are ``factor`` times as sensitive to the demands of others."""
    return _with_models(instance, lambda model: _scaled(model, 1.0, growth=factor))


def _with_models(instance: Instance, change: Callable[[DnnModel], DnnModel]) -> Instance:
    """Return an instance with ``change`` applied to every DNN model of its GPU types."""
    pools = (
        replace(pool, type=replace(pool.type, models={name: change(model) for name, model in pool.type.models.items()}))
        for pool in instance.gpus
    )
    return replace(instance, gpus=tuple(pools))


def _perturbed(gpu: GpuType, error: float, seed: int) -> GpuType:
    models = {}
    for name, model in gpu.models.items():
        entropy = [seed, *gpu.name.encode(), 0, *name.encode()]
        time, power, l2, dram, growth = 1.0 + error * np.random.default_rng(entropy).uniform(-1.0, 1.0, 5)
        models[name] = _scaled(model, float(time), float(power), float(l2), float(dram), float(growth))
    return replace(gpu, models=models)


def _scaled(
    model: DnnModel, time: float, power: float = 1.0, l2: float = 1.0, dram: float = 1.0, growth: float = 1.0
) -> DnnModel:
    """Scale a model's times, demands and sensitivity.

    Demands are linear in ``1000 b / time``. Their slope is also multiplied by the factor ``time``, so that a demand
    changes only by its own factor.
    """
    k1, k2, k3, k4, k5 = model.k
    solo, company = model.solo, model.company
    if solo is not None:
        solo = replace(
            solo,
            gpu_ms=_times(solo.gpu_ms, time),
            l2_pct=tuple(l2 * value for value in solo.l2_pct),
            dram_pct=tuple(dram * value for value in solo.dram_pct),
            l2=_line(solo.l2, l2, time),
            dram=_line(solo.dram, dram, time),
        )
    if company is not None:
        company = replace(
            company,
            gpu_ms=_times(company.gpu_ms, time),
            alpha_l2=growth * company.alpha_l2,
            alpha_dram=growth * company.alpha_dram,
        )
    return replace(
        model,
        k=(time * k1, time * k2, time * k3, k4, time * k5),
        power=_line(model.power, power, time),
        l2=_line(model.l2, l2, time),
        alpha_cache=growth * model.alpha_cache,
        scheduling_alone_ms=time * model.scheduling_alone_ms,
        solo=solo,
        inss=None if model.inss is None else (growth * model.inss[0], growth * model.inss[1]),
        company=company,
    )


def _line(line: tuple[float, float], factor: float, time: float) -> tuple[float, float]:
    """Scale a demand, given by slope and intercept, by ``factor`` where times are scaled by ``time``."""
    slope, intercept = line
    return factor * time * slope, factor * intercept


def _times(times_ms: tuple[tuple[float, ...], ...], factor: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(factor * time for time in row) for row in times_ms)

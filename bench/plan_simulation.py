"""Simulation of a plan under random arrivals: every request of every workload, from arrival to result.

Each workload has a first-come-first-served queue, split over its slots in proportion to their planned rates. A batch
is ready when it is full or its oldest request has waited for the slot's timeout. It starts when its executor is free.
If several slots take turns, the batch that is ready first starts first; an idle executor never waits for the duty
cycle. The performance model gives the time of a batch from its actual size and its neighbours: the batches that run
at the same time (``dynamic``), or all planned neighbours (``static``). ``bench.simulation.services`` simulates
language-model services.
"""

import math
from collections.abc import Callable, Generator
from functools import cache
from typing import TypeVar, cast

from bench.judging.judge import check_belongs
from bench.simulation.driver import Simulation
from bench.simulation.layout import sites
from bench.simulation.load import server_loads, warmup_s
from bench.simulation.result import Series, Served, Simulated
from bench.simulation.services import ServiceSimulation
from bench.simulation.serving_rules import offered_rps
from bench.simulation.settings import MOST_REQUESTS, Interference, Settings
from instances import Gpulet, InputError, Instance, Objective, PlacedGpu, Plan, Slot
from instances.suites import suite

Result = TypeVar("Result")

__all__ = ["Interference", "Series", "Served", "Settings", "Simulated", "finished", "no_simulation", "simulate"]


def simulate(
    plan: Plan, instance: Instance, settings: Settings | None = None, truth: Instance | None = None
) -> Simulated:
    """Simulate a plan.

    Parameters
    ----------
    plan, instance
        Plan to simulate, and its instance. The plan may violate constraints if there are figures for all its batches.
    truth
        The same instance with the true performance of its GPUs, if that differs from the planner's model.

    Raises
    ------
    InputError
        If the plan does not belong to this instance, there are no figures for one of its batches, or more than
        ``MOST_REQUESTS`` would arrive.
    """
    return finished(simulation(plan, instance, settings or Settings(), truth))


def finished(steps: Generator[float, None, Result], tell: Callable[[float], object] = float) -> Result:
    """Run a simulation to its end and return its result.

    ``tell`` receives each finished fraction; the default, ``float``, has no effect.
    """
    while True:
        try:
            tell(next(steps))
        except StopIteration as end:
            return cast(Result, end.value)


def simulation(
    plan: Plan, instance: Instance, settings: Settings, truth: Instance | None = None
) -> Generator[float, None, Simulated]:
    """Simulate a plan as in ``simulate``; yield the finished fraction every few hundred thousand requests."""
    check_belongs(plan, instance)
    if (reason := no_simulation(plan, instance)) is not None:
        raise InputError("plan", f"cannot be simulated: {reason}")
    if (requests := expected_requests(plan, instance, settings)) > MOST_REQUESTS:
        problem = f"{requests:,.0f} requests would arrive; at most {MOST_REQUESTS:,} are simulated"
        raise InputError("simulation", f"{problem}; ask for fewer seconds")
    if instance.services:
        return ServiceSimulation(plan, instance, settings, truth or instance).run()
    return Simulation(plan, instance, settings, truth or instance).run()


def expected_requests(plan: Plan, instance: Instance, settings: Settings) -> float:
    """Return the mean number of requests that arrive in a simulation of a plan that can be simulated."""
    seconds = warmup_of(plan, instance, settings, instance) + settings.seconds
    return math.fsum(offered_rps(plan, instance).values()) * seconds


def warmup_of(plan: Plan, instance: Instance, settings: Settings, truth: Instance) -> float:
    """Return the simulated time before the measurement of a plan that can be simulated, in seconds."""
    if settings.warmup_s is not None:
        return settings.warmup_s
    servers = server_loads(sites(plan, instance, truth), instance, settings, offered_rps(plan, instance))
    return warmup_s(servers, instance, settings)


def no_simulation(plan: Plan, instance: Instance) -> str | None:
    """Return why ``plan`` for ``instance`` cannot be simulated, or ``None`` if it can."""
    if instance.objective is Objective.COLOCATION:
        return "best-effort jobs have no requests with an SLO"
    types = {gpu.type for gpu in plan.gpus if gpu.gpulets}
    if instance.applications and len(types) > 1:
        return "applications over several types of GPU are not simulated"
    for position, gpulet, slot in plan.slots():
        if (pool := instance.pool(plan.gpus[position].type)) is None:
            return f"GPU {position}: the instance has no GPU of type {plan.gpus[position].type}"
        model = instance.model_of[slot.workload]
        if pool.type.mig is None:
            if slot.batch > pool.type.models[model].max_batch:
                return f"GPU {position}, {slot.workload}: there are no figures for batch {slot.batch}"
        elif pool.type.mig.configuration(model, gpulet.share_units, slot.batch, gpulet.processes) is None:
            return f"GPU {position}, {slot.workload}: there are no figures for its MIG instance"
    return None


@cache
def warm_simulation() -> None:
    """Simulate a tenth of a second, so that no run waits for the compiler. Only the first call on a host is slow."""
    instance = suite("igniter-3").build()[0]
    gpulets = tuple(Gpulet(10, (Slot(workload.id, 1, workload.rate_rps),)) for workload in instance.workloads)
    simulate(Plan(instance.name, (PlacedGpu(instance.gpus[0].type.name, gpulets),)), instance, Settings(seconds=0.1))

"""Simulation of a plan under random arrivals: every request of every workload, from arrival to result.

Each workload has a first-come-first-served queue, split over its slots in proportion to their planned rates. A batch
is ready when it is full or its oldest request has waited for the slot's timeout, and starts when its executor is free.
Where slots take turns the batch that was ready first goes first: the duty cycle is what the planner promised, not a
clock that keeps an idle executor waiting. Batches take the performance model's time for their actual size beside
whoever is really running (``dynamic``) or would be planned to (``static``).
"""

from collections.abc import Generator

from bench.judging.judge import check_belongs
from bench.simulation.driver import Simulation
from bench.simulation.offered import offered_rps
from bench.simulation.result import Series, Served, Simulated
from bench.simulation.settings import Interference, Settings
from instances import InputError, Instance, Objective, Plan

__all__ = ["Interference", "Series", "Served", "Settings", "Simulated", "no_simulation", "offered_rps", "simulate"]


def simulate(
    plan: Plan,
    instance: Instance,
    settings: Settings | None = None,
    truth: Instance | None = None,
) -> Simulated:
    """Simulate a plan.

    Parameters
    ----------
    plan
        To be simulated; one that breaks constraints may be, as long as there are figures for its batches.
    instance
        What it answers.
    settings
        Arrivals, duration and so on.
    truth
        The same instance as it really is, where its GPUs do not behave as the planner thinks.

    Raises
    ------
    InputError
        If the plan is none for this instance, or nothing can be predicted for one of its batches.
    """
    steps = simulation(plan, instance, settings or Settings(), truth)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Simulated = done.value
            return found


def simulation(
    plan: Plan, instance: Instance, settings: Settings, truth: Instance | None = None
) -> Generator[float, None, Simulated]:
    """Simulate as ``simulate`` does, pausing every few hundred thousand requests to say what part is done."""
    check_belongs(plan, instance)
    if (reason := no_simulation(plan, instance)) is not None:
        raise InputError("plan", f"cannot be simulated: {reason}")
    return Simulation(plan, instance, settings, truth or instance).run()


def no_simulation(plan: Plan, instance: Instance) -> str | None:
    """Return why ``plan``, an answer to ``instance``, cannot be simulated, or ``None`` if it can."""
    if instance.objective is Objective.COLOCATION:
        return "best-effort jobs have no requests to be on time"
    types = {gpu.type for gpu in plan.gpus if gpu.gpulets}
    if instance.applications and len(types) > 1:
        return "applications over several types of GPU are not simulated"
    for g, gpu in enumerate(plan.gpus):
        pool = instance.pool(gpu.type)
        if pool is None:
            return f"GPU {g}: the instance has no GPU of type {gpu.type}"
        for gpulet in gpu.gpulets:
            for slot in gpulet.slots:
                model = instance.workloads[instance.workload_index[slot.workload]].model
                if pool.type.mig is None:
                    if slot.batch > pool.type.models[model].max_batch:
                        return f"GPU {g}, {slot.workload}: there are no figures for batch {slot.batch}"
                elif pool.type.mig.configuration(model, gpulet.share_units, slot.batch, gpulet.processes) is None:
                    return f"GPU {g}, {slot.workload}: there are no figures for its MIG instance"
    return None

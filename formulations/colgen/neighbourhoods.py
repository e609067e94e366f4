"""Large-neighbourhood search: the workloads of some GPUs of a plan are planned anew, as an instance of their own."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bench.api import Run
from formulations.colgen.clock import alone, now
from formulations.colgen.column_generation import ColumnGeneration
from instances import GpuPool, Instance, PlacedGpu, Plan
from instances.arrays import Floats

WASTE = 1.3
"""Waste of the chosen GPUs, in prices of the cheapest GPU: with less than one, none of them can be saved."""

MOST_WORKLOADS = 120
"""Workloads planned anew at once, at most."""

PERTURBATION = 0.5
"""Largest relative change of a GPU's waste when GPUs are ranked."""


class Neighbourhoods:
    """Parts of a plan whose GPUs waste the most, by the duals.

    Parameters
    ----------
    generation
        Column generation with a bound; its stability centre has the duals.
    solve
        Solver of an instance: returns a plan or ``None``.
    """

    def __init__(self, generation: ColumnGeneration, solve: Callable[[Instance, Run], Plan | None]) -> None:
        self._generation, self._solve = generation, solve
        self._random = np.random.default_rng(generation.run.seed)
        self._price = {pool.type.name: pool.type.price_per_hour for pool in generation.instance.gpus}

    def improved(self, plan: Plan, limit_s: float) -> Plan | None:
        """Plan the workloads of some GPUs anew; return the plan if it is cheaper."""
        run = self._generation.run
        chosen = self._chosen(plan)
        kept = tuple(gpu for g, gpu in enumerate(plan.gpus) if g not in chosen)
        freed = tuple(gpu for g, gpu in enumerate(plan.gpus) if g in chosen)
        part = self._part(kept, freed)
        deadline = min(run.deadline, now() + limit_s)
        found = self._solve(part, replace(alone(run, deadline), start=Plan(part.name, freed)))
        if found is None or self._cost(found.gpus) >= self._cost(freed) * (1.0 - 1e-9):
            return None
        return Plan(plan.instance, (*kept, *found.gpus))

    def _part(self, kept: tuple[PlacedGpu, ...], freed: tuple[PlacedGpu, ...]) -> Instance:
        """Return the instance of the freed GPUs' workloads on the pool without the kept GPUs."""
        instance = self._generation.instance
        held = {slot.workload for gpu in freed for gpulet in gpu.gpulets for slot in gpulet.slots}
        pools = []
        for pool in instance.gpus:
            used = sum(gpu.type == pool.type.name for gpu in kept)
            pools.append(pool if pool.count is None else GpuPool(pool.type, pool.count - used))
        workloads = tuple(w for w in instance.workloads if w.id in held)
        return replace(instance, workloads=workloads, gpus=tuple(pools))

    def _chosen(self, plan: Plan) -> set[int]:
        waste = self._waste(plan)
        factor = 1.0 + PERTURBATION * self._random.uniform(-1.0, 1.0, len(waste))
        chosen: set[int] = set()
        total, workloads, cheapest = 0.0, 0, min(self._price.values())
        for g in np.argsort(-waste * factor, kind="stable").tolist():
            workloads += len(plan.gpus[g].gpulets)
            if chosen and (total >= WASTE * cheapest or workloads > MOST_WORKLOADS):
                break
            chosen.add(g)
            total += waste[g]
        return chosen

    def _waste(self, plan: Plan) -> Floats:
        """Return the price of each GPU minus the duals of its workloads."""
        generation = self._generation
        centre = generation.smoothing.stability_centre
        where = generation.instance.workload_index
        dual = np.zeros(len(generation.class_of)) if centre is None else centre.workload_dual[generation.class_of]
        paid = [
            math.fsum(dual[where[slot.workload]] for gpulet in gpu.gpulets for slot in gpulet.slots)
            for gpu in plan.gpus
        ]
        return np.array([self._price[gpu.type] for gpu in plan.gpus]) - np.array(paid)

    def _cost(self, gpus: tuple[PlacedGpu, ...]) -> float:
        return math.fsum(self._price[gpu.type] for gpu in gpus)

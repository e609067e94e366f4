"""Independent parts of a plan: groups of GPUs that share no workload with other groups, and their workloads."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bench.simulation.serving_rules import offered_rps
from instances import Instance, Objective, Plan
from instances.grouping import grouped


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A plan or a part of a plan, with the assumed instance and the true instance of its workloads."""

    plan: Plan
    instance: Instance
    truth: Instance


def rate_rps(part: PlanPart) -> float:
    """Return the rate of all requests of a part, in requests per second."""
    return math.fsum(offered_rps(part.plan, part.instance).values())


def independent_parts(whole: PlanPart) -> list[PlanPart]:
    """Return the parts of a plan that have requests; GPUs of different parts share no workload and no service.

    Each workload of a part has the arrival rate that it has in the whole plan.
    """
    plan, instance = whole.plan, whole.instance
    offered = offered_rps(plan, instance)
    # Union-find over the workloads: those with the same root belong to the same part.
    leader = {workload.id: workload.id for workload in instance.workloads}

    def root(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    def join(names: Iterable[str]) -> None:
        first_root, *other_roots = map(root, names)
        for other in other_roots:
            leader[root(other)] = root(first_root)

    used_gpus = [gpu for gpu in plan.gpus if gpu.gpulets]
    for gpu in used_gpus:
        join(slot.workload for gpulet in gpu.gpulets for slot in gpulet.slots)
    for service in instance.services:
        join(workload.id for workload in instance.workloads if workload.service == service)
    gpus = grouped((root(gpu.gpulets[0].slots[0].workload), gpu) for gpu in used_gpus)
    members = grouped((root(workload.id), workload.id) for workload in instance.workloads)

    def restricted(full: Instance, names: set[str]) -> Instance:
        workloads = tuple(replace(w, rate_rps=offered[w.id]) for w in full.workloads if w.id in names)
        return replace(full, objective=Objective.COST, workloads=workloads)

    return [
        PlanPart(
            Plan(plan.instance, tuple(gpus.get(key, ()))),
            restricted(instance, set(names)),
            restricted(whole.truth, set(names)),
        )
        for key, names in members.items()
        if any(offered[name] > 0.0 for name in names)
    ]

"""Tiny instance on which schedulers load their compiled kernels before time is measured."""

from instances import GpuPool, Instance, Job, Objective, SloRule, Workload
from instances.catalogue import gpu_type


def tiny_instance(objective: Objective, slo_rule: SloRule = SloRule.HALF_SLO) -> Instance:
    """Return two small workloads, or under ``colocation`` two best-effort jobs, on two V100s."""
    pool = GpuPool(gpu_type("v100"), 2)
    if objective is Objective.COLOCATION:
        jobs = tuple(Job(f"j{n}", "alexnet", (1,), (1.0,), (1000.0,), (1.0,)) for n in range(2))
        return Instance("tiny", objective, slo_rule, "igniter", (pool,), (), jobs=jobs)
    workloads = tuple(Workload(f"w{n}", "alexnet", 20.0, 100.0) for n in range(2))
    return Instance("tiny", objective, slo_rule, "igniter", (pool,), workloads)

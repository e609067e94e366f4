"""Mixes of iGniter's models, and plans of schedulers, for tests of heuristics."""

from collections.abc import Iterable

from bench.api import Run, Scheduler, Status
from heuristics.igniter.igniter import FfdPlus, FfdPlusPlus, IGniter
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type

V100 = gpu_type("v100")
SCHEDULERS = [IGniter(), FfdPlus(), FfdPlusPlus()]
INTERFERENCE_AWARE = [IGniter(), FfdPlusPlus()]

Demand = tuple[str, float, float]


def instance(
    demands: Iterable[Demand],
    objective: Objective = Objective.COST,
    gpus: int | None = None,
    pools: tuple[GpuPool, ...] | None = None,
) -> Instance:
    workloads = tuple(Workload(f"w{i}", model, slo, rate) for i, (model, slo, rate) in enumerate(demands))
    return Instance("mix", objective, SloRule.HALF_SLO, "igniter", pools or (GpuPool(V100, gpus),), workloads)


def planned(scheduler: Scheduler, problem: Instance) -> Plan:
    outcome = scheduler.schedule(problem, Run())
    assert outcome.status is Status.FEASIBLE, outcome.reason
    assert outcome.plan is not None
    return outcome.plan


def contents(plan: Plan) -> list[list[tuple[str, int, int]]]:
    """Return workload, share units and batch of each slot by GPU, in order of placement."""
    return [
        [(slot.workload, gpulet.share_units, slot.batch) for gpulet in gpu.gpulets for slot in gpulet.slots]
        for gpu in plan.gpus
    ]


def by_name(scheduler: object) -> str:
    return str(getattr(scheduler, "name", scheduler))

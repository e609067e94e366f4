"""Instances for the checks of schedulers: small, with a known best value; large; and infeasible."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from instances import GpuPool, Instance, Objective, Partition, SloRule, Workload
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.suites.mediator import forty_jobs
from instances.suites.parvagpu import parvagpu


@dataclass(frozen=True, slots=True)
class CheckedInstance:
    """A small instance of the checks.

    Attributes
    ----------
    instance
        Instance with capacity to spare: every scheduler for its objective finds a plan.
    reachable
        Best value of a plan of the class ``spatial``, or ``None`` if unknown. The bounds of every scheduler cover this
        class, so a bound that excludes the value is wrong.
    may_give_up
        Whether a scheduler may report a reason in place of a plan.
    """

    instance: Instance
    reachable: float | None
    may_give_up: bool = False


def small_instances(objective: Objective, partition: Partition) -> list[CheckedInstance]:
    """Return the small instances of an objective; some have workloads that differ only in their ids."""
    if partition is Partition.MIG:
        smallest, *_ = parvagpu()
        return [CheckedInstance(replace(smallest, name="check-mig", workloads=smallest.workloads[:4]), 4.10)]
    match objective:
        case Objective.COST:
            return [
                CheckedInstance(_v100s("check-cost", objective, None, *_DIFFERENT_WORKLOADS), 3.06),
                CheckedInstance(_v100s("check-cost-alike", objective, None, *_ALIKE_WORKLOADS), 6.12),
                CheckedInstance(_two_types(), 3.586),
                CheckedInstance(
                    replace(
                        _v100s("check-cost-attainment", objective, None, *_DIFFERENT_WORKLOADS),
                        slo_rule=SloRule.ATTAINMENT,
                    ),
                    3.06,
                    may_give_up=True,
                ),
            ]
        case Objective.CAPACITY:
            return [
                CheckedInstance(_v100s("check-capacity", objective, 3, *_DIFFERENT_WORKLOADS), 11270.74653922),
                CheckedInstance(_v100s("check-capacity-alike", objective, 3, *_ALIKE_WORKLOADS[:3]), 4605.15876458),
            ]
        case Objective.GOODPUT:
            return [
                CheckedInstance(_v100s("check-goodput", objective, 1, *_DIFFERENT_WORKLOADS), 1100.0),
                CheckedInstance(_v100s("check-goodput-alike", objective, 1, *_THREE_ALIKE), 1440.0),
            ]
        case Objective.SCALE:
            return [CheckedInstance(_rtx2080tis("check-scale", 3), 8.96)]
        case Objective.COLOCATION:
            return [CheckedInstance(replace(forty_jobs()[0], name="check-jobs", jobs=forty_jobs()[0].jobs[:6]), None)]


def large_instance(objective: Objective, partition: Partition) -> Instance:
    """Return an instance that exact methods cannot solve in reasonable time."""
    if partition is Partition.MIG:
        return parvagpu()[-1]
    match objective:
        case Objective.COST:
            return generate("heavy-mix", 80, 0, name="check-large")
        case Objective.CAPACITY:
            return generate("heavy-mix", 80, 7, objective, gpus=40, name="check-large")
        case Objective.GOODPUT:
            return generate("overload-mix", 80, 1, objective, gpus=32, name="check-large")
        case Objective.SCALE:
            return _rtx2080tis("check-large", 24, copies=16)
        case Objective.COLOCATION:
            return forty_jobs()[1]


def infeasible_instance(objective: Objective, partition: Partition) -> Instance | None:
    """Return an instance with a workload for which no GPU can meet the SLO.

    It exists for the objectives ``cost`` and ``capacity`` on shares; otherwise the result is ``None``.
    """
    if partition is Partition.MIG or objective not in (Objective.COST, Objective.CAPACITY):
        return None
    return _v100s(
        "check-impossible", objective, None if objective is Objective.COST else 3, *_DIFFERENT_WORKLOADS, _UNSERVABLE
    )


_DIFFERENT_WORKLOADS = (
    Workload("a", "alexnet", 15.0, 500.0),
    Workload("r", "resnet50", 40.0, 400.0),
    Workload("v", "vgg19", 60.0, 200.0),
)
_V100_AND_T4_WORKLOADS = (*_DIFFERENT_WORKLOADS[:2], Workload("v", "vgg19", 25.0, 300.0))
"""Workloads of which a T4 cannot serve the last one."""

_ALIKE_WORKLOADS = (
    # The ids are not sorted, so that a scheduler that sorts workloads by id changes their order.
    *(Workload(f"alike {letter}", "resnet50", 40.0, 300.0) for letter in "cbad"),
    Workload("one", "alexnet", 20.0, 200.0),
)
_THREE_ALIKE = tuple(Workload(f"alike {number}", "resnet50", 40.0, 1200.0) for number in range(3))
_UNSERVABLE = Workload("never", "vgg19", 2.0, 200.0)
_SCALE_WORKLOADS = (
    Workload("g", "googlenet", 44.0, 100.0),
    Workload("alike", "googlenet", 44.0, 100.0),
    Workload("r", "resnet50", 95.0, 50.0),
)


def _v100s(name: str, objective: Objective, count: int | None, *workloads: Workload) -> Instance:
    pool = (GpuPool(gpu_type("v100"), count),)
    return Instance(name, objective, SloRule.HALF_SLO, "igniter", pool, workloads)


def _two_types() -> Instance:
    """Return an instance whose cheapest plan has a GPU of each of two types."""
    pool = (GpuPool(gpu_type("v100"), 4), GpuPool(gpu_type("t4"), None))
    return Instance("check-cost-types", Objective.COST, SloRule.HALF_SLO, "igniter", pool, _V100_AND_T4_WORKLOADS)


def _rtx2080tis(name: str, count: int, copies: int = 1) -> Instance:
    workloads: Sequence[Workload] = _SCALE_WORKLOADS
    if copies > 1:
        workloads = [
            replace(workload, id=f"{workload.id} {copy}") for copy in range(copies) for workload in _SCALE_WORKLOADS
        ]
    pool = (GpuPool(gpu_type("rtx2080ti"), count),)
    return Instance(name, Objective.SCALE, SloRule.DUTY_CYCLE, "gpulet", pool, tuple(workloads))

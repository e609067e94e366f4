"""Plugins with false claims and odd plans."""

import math
from dataclasses import replace
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from hostile.base import Hostile, honest_plan
from instances import Instance, Plan, spatial_gpu


class FalseBound(Hostile):
    """Certifies that no plan costs less than a million dollars."""

    BOUND: ClassVar[float] = 1e6

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, honest_plan(instance), Bound(self.BOUND, certified=True))


class NegativeZero(FalseBound):
    """Certifies a bound of -0.0."""

    BOUND: ClassVar[float] = -0.0


class HugeBound(FalseBound):
    """Certifies a bound near the largest number."""

    BOUND: ClassVar[float] = 1.7e308


class NoBound(FalseBound):
    """Certifies NaN."""

    BOUND: ClassVar[float] = math.nan


class FalseOptimum(Hostile):
    """Says that a plan with one GPU for each workload is optimal."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        plan = honest_plan(instance)
        apart = tuple(replace(gpu, gpulets=(gpulet,)) for gpu in plan.gpus for gpulet in gpu.gpulets)
        return Outcome(Status.OPTIMAL, replace(plan, gpus=apart))


class FalseInfeasible(Hostile):
    """Says that there is no plan."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.INFEASIBLE)


class OddPlan(Hostile):
    """Gives a slot an impossible share."""

    ENDS: ClassVar[tuple[str, str]] = ("invalid_plan finished exception crashed", "")
    SHARE: ClassVar[int] = -4
    BATCH: ClassVar[int] = 1
    RATE: ClassVar[float] = 1.0
    GPUS: ClassVar[int] = 1

    def attack(self, instance: Instance, run: Run) -> Plan:
        gpu = spatial_gpu(instance.gpus[0].type.name, [(instance.workloads[0].id, self.SHARE, self.BATCH, self.RATE)])
        return Plan(instance.name, (gpu,) * self.GPUS)


class HugeShare(OddPlan):
    """Gives a slot 2^31-1 units."""

    SHARE: ClassVar[int] = 2**31 - 1


class HugeBatch(OddPlan):
    """Gives a slot a batch of 2^31-1."""

    SHARE: ClassVar[int] = 4
    BATCH: ClassVar[int] = 2**31 - 1


class HugeRate(OddPlan):
    """Gives a slot ten million requests a second."""

    SHARE: ClassVar[int] = 40
    RATE: ClassVar[float] = 1e7


class InfiniteRate(OddPlan):
    """Gives a slot infinitely many requests."""

    ENDS: ClassVar[tuple[str, str]] = ("invalid_plan", "")
    SHARE: ClassVar[int] = 40
    RATE: ClassVar[float] = math.inf


class NegativeRate(OddPlan):
    """Gives a slot a negative rate."""

    SHARE: ClassVar[int] = 40
    RATE: ClassVar[float] = -1.0


class GiantPlan(OddPlan):
    """Uses 20,000 GPUs."""

    SHARE: ClassVar[int] = 40
    GPUS: ClassVar[int] = 20_000


class OtherInstance(Hostile):
    """Returns the plan of another instance."""

    ENDS: ClassVar[tuple[str, str]] = ("invalid_plan", "")

    def attack(self, instance: Instance, run: Run) -> Plan:
        return replace(honest_plan(instance), instance="another")

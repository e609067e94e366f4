"""The scheduler contract: an ``Instance`` and a ``Run`` go in, an ``Outcome`` comes out.

A scheduler is a frozen dataclass whose fields are its parameters (``--param name.field=value``). It registers under
the entry-point group ``bench.schedulers``; the runner loads it by name inside the worker process.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol, runtime_checkable

from instances import Instance, Objective, Partition, Plan, PlanClass


class Status(StrEnum):
    """What a scheduler says of its own result."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that no plan of a stated class can beat.

    Attributes
    ----------
    value
        In the objective's own unit: dollars per hour, requests per second or rate multiple.
    certified
        Proven for the true problem with safe rounding. ``False``: a bound of some model of it.
    plan_class
        The widest class of plans it holds for.
    allowed_shares
        The shares it considered, in units; ``None`` for every whole unit.
    slots_per_gpulet
        The most slots in one gpulet it considered.
    max_batch
        The largest batch it considered; ``None`` for all that the catalogue supports.
    """

    value: float
    certified: bool
    plan_class: PlanClass = PlanClass.SPATIAL
    allowed_shares: tuple[int, ...] | None = None
    slots_per_gpulet: int = 1
    max_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scheduler returns.

    Attributes
    ----------
    status
        Its own claim; the judge decides feasibility.
    plan, bound
        The best it has, if any.
    statistics
        Numbers worth keeping, such as nodes or columns, by name.
    reason
        One line for people on why there is no plan, such as the workload that no GPU can serve, or no claim.
    """

    status: Status
    plan: Plan | None = None
    bound: Bound | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def _ignore(plan: Plan | None, bound: Bound | None) -> None:
    """Drop a report: nobody is listening."""


@dataclass(frozen=True, slots=True)
class Run:
    """The terms of one run.

    Attributes
    ----------
    deadline
        ``time.monotonic()`` value by which ``schedule`` should return; later it is killed.
    seed
        For every random choice: the same seed gives the same plan.
    threads
        That the scheduler and its solver may use.
    memory_limit_mb
        Address space the process may reserve, or ``None``.
    start
        The plan of the scheduler named behind ``@``, or ``None``.
    listener
        Where ``report`` goes.
    work_limit
        Units of work after which a scheduler that counts them stops, or ``None``. The deadline holds all the same.
    """

    deadline: float = float("inf")
    seed: int = 0
    threads: int = 1
    memory_limit_mb: float | None = None
    start: Plan | None = None
    listener: Callable[[Plan | None, Bound | None], None] = _ignore
    work_limit: int | None = None

    def work_left(self, done: int, otherwise: int) -> int:
        """Return the units of work left after ``done``; without a work limit those of ``otherwise``."""
        return max(0, (otherwise if self.work_limit is None else self.work_limit) - done)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def report(self, plan: Plan | None = None, bound: Bound | None = None) -> None:
        """Stream an incumbent or a bound as soon as it is found: a hard kill then loses none of them."""
        self.listener(plan, bound)


@runtime_checkable
class Scheduler(Protocol):
    """Anything that turns instances into plans. In practice a frozen dataclass.

    A class may also define ``warm(self) -> None``: it is called before the clock starts, sees no instance, and is the
    place to import solvers and compile kernels. One that plans GPUs cut into MIG instances says so with
    ``partitions: ClassVar[frozenset[Partition]]``; without it a scheduler plans shares. One that predicts latencies by
    a model of its own, such as without interference, says so with ``own_model: ClassVar[bool] = True``: what it calls
    feasible is so by that model, and the judge may object. One that leaves an objective out on purpose gives the reason
    with ``left_out: ClassVar[Mapping[Objective, str]]``.

    One that counts its work and stops at ``run.work_limit`` names the unit with ``work_unit: ClassVar[str]``, such as
    ``"rounds"``. With a work limit its result does not depend on the load of the machine. One without a unit ends by
    itself and ignores the limit.
    """

    name: ClassVar[str]
    objectives: ClassVar[frozenset[Objective]]

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan for ``instance`` within the terms of ``run``."""
        ...


class Capable(Protocol):
    """Whatever says what it can solve: a scheduler, its class, or a description of it."""

    @property
    def objectives(self) -> frozenset[Objective]:
        """What it can solve."""
        ...


def partitions(scheduler: object) -> frozenset[Partition]:
    """Return how the GPUs may be divided that ``scheduler`` plans."""
    found: frozenset[Partition] = getattr(scheduler, "partitions", frozenset({Partition.SHARES}))
    return found


def has_own_model(scheduler: object) -> bool:
    """Whether ``scheduler`` predicts latencies by a model of its own."""
    return bool(getattr(scheduler, "own_model", False))


def work_unit(scheduler: object) -> str:
    """Return what ``scheduler`` counts up to a work limit, or an empty text where it counts nothing."""
    return str(getattr(scheduler, "work_unit", ""))


def refusal(scheduler: Capable, instance: Instance) -> str | None:
    """Return why ``scheduler`` does not do what ``instance`` asks, or ``None`` if it does."""
    if instance.objective not in scheduler.objectives:
        able = ", ".join(sorted(scheduler.objectives)) or "nothing"
        reason = getattr(scheduler, "left_out", {}).get(instance.objective)
        return f"does not solve {instance.objective}{f' ({reason})' if reason else ''}; it solves {able}"
    if instance.partition not in partitions(scheduler):
        able = ", ".join(sorted(partitions(scheduler))) or "nothing"
        return f"does not plan GPUs divided by {instance.partition}; it plans {able}"
    return None

"""Contract of the schedulers: the inputs are an ``Instance`` and a ``Run``, the output is an ``Outcome``.

A scheduler is a frozen dataclass whose fields are its parameters (``--param name.field=value``). It registers under
the entry-point group ``bench.schedulers``; the runner loads it by name inside the worker process.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, Literal, Protocol, runtime_checkable

from instances import Instance, Objective, Partition, Plan, PlanClass


class Status(StrEnum):
    """Claim of a scheduler about its own result."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


# Metadata of fields; see ``Scope``.
_COUNT = {"strict": True, "ge": 1, "lt": 2**31}
_POSITION = {"strict": True, "ge": 0, "lt": 2**63}
_FLAG = {"strict": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Plans to which a bound or another claim applies.

    The metadata of a field states the values that the bench accepts when it reads the field from a worker or a ledger.

    Attributes
    ----------
    plan_class
        Widest class of plans to which the claim applies.
    allowed_shares
        Shares that the plans may have, in units; ``None`` for every whole unit.
    slots_per_gpulet
        Largest number of slots in one gpulet.
    max_batch
        Largest batch; ``None`` for the largest batch in the catalogue.
    split_workloads
        Workloads that a plan may serve by several slots; ``None`` if the class alone decides.
    part_steps
        Parts of split workloads are multiples of ``1 / part_steps`` of their rate; ``None`` for parts of any size.
    parts_apart
        Whether the claim applies only to plans with at most one slot of a workload on each GPU.
    """

    plan_class: PlanClass = PlanClass.SPATIAL
    allowed_shares: tuple[int, ...] | None = field(default=None, metadata={"max_length": 10_000})
    slots_per_gpulet: int = field(default=1, metadata=_COUNT)
    max_batch: int | None = field(default=None, metadata=_COUNT)
    split_workloads: tuple[str, ...] | None = field(default=None, metadata={"max_length": 100_000})
    part_steps: int | None = field(default=None, metadata=_COUNT)
    parts_apart: bool = field(default=False, metadata=_FLAG)


@dataclass(frozen=True, slots=True)
class Bound(Scope):
    """Value that no plan of a scope can beat.

    Attributes
    ----------
    value
        Value in the objective's unit: dollars per hour, requests per second or rate multiple.
    certified
        Whether the bound is proven for the true problem with safe rounding. If not, it bounds a model of the problem.
    """

    value: float = field(metadata={"strict": True, "allow_inf_nan": False})
    certified: bool = field(metadata=_FLAG)

    @property
    def scope(self) -> Scope:
        """Plans to which the bound applies."""
        return Scope(**{attribute.name: getattr(self, attribute.name) for attribute in fields(Scope)})


@dataclass(frozen=True, slots=True)
class Duals:
    """Leaf of a proof: duals that imply a bound on the plans of the leaf.

    Attributes
    ----------
    workloads
        Dual of each workload, in the order of the instance: its worth under ``cost`` and ``scale``, otherwise the
        charge for serving it.
    gpus
        Largest worth of a GPU of each type at these duals, as the scheduler found it.
    slices
        On GPUs that are cut into MIG instances: the dual of a MIG instance of each size, by GPU type.
    """

    workloads: tuple[float, ...]
    gpus: tuple[float, ...]
    slices: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Branching:
    """Inner node of a proof: two branches that cover all plans of the node.

    Attributes
    ----------
    on
        ``gpus``: at most ``second`` GPUs of type ``first``, or more. ``pair``: workloads ``first`` and ``second`` on
        different GPUs, or on one. ``seat``: workload ``first`` on no GPU of type ``second``, or on one.
    first, second
        Positions in the instance, or a number of GPUs.
    branches
        Positions of the branches in the proof, in that order.
    """

    on: Literal["gpus", "pair", "seat"]
    first: int = field(metadata=_POSITION)
    second: int = field(metadata=_POSITION)
    branches: tuple[int, int]


ProofNode = Duals | Branching


@dataclass(frozen=True, slots=True)
class Proof:
    """Nodes of the branching tree from which a bound follows, the root first; at least one."""

    nodes: tuple[ProofNode, ...] = field(metadata={"min_length": 1})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a scheduler.

    Attributes
    ----------
    status
        The scheduler's claim; the judge decides on feasibility.
    plan, bound
        Best plan and best bound, if any.
    statistics
        Numbers to record by name, such as nodes or columns.
    reason
        Reason why there is no plan or no claim, in one line for people; such as the workload that no GPU can serve.
    proof
        Nodes of the branching tree from which the bound follows, the root first; empty without a proof.
    """

    status: Status
    plan: Plan | None = None
    bound: Bound | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    proof: Sequence[ProofNode] = ()

    def workload_duals(self, instance: Instance) -> dict[str, float]:
        """Return the dual of each workload in the first leaf of the proof, by id; empty without a proof.

        The dual is the workload's part of the leaf's bound, in the objective's unit.
        """
        leaves = [node for node in self.proof if isinstance(node, Duals)]
        return (
            {workload.id: dual for workload, dual in zip(instance.workloads, leaves[0].workloads, strict=True)}
            if leaves
            else {}
        )


def ignore(plan: Plan | None, bound: Bound | None) -> None:
    """Ignore a report; the default listener of a run."""


@dataclass(frozen=True, slots=True)
class Run:
    """Limits, seed and start plan of one run.

    Attributes
    ----------
    deadline
        ``time.monotonic()`` value by which ``schedule`` should return. A process that still runs later is killed.
    seed
        Seed of all random choices; the same seed gives the same plan.
    threads
        Number of threads of the scheduler and its solver.
    memory_limit_mb
        Address space that the process may reserve, or ``None``.
    start
        Plan of the scheduler that the spec names after ``@``, or ``None``.
    listener
        Function that receives every ``report``.
    work_limit
        Units of work after which a scheduler that counts them stops, or ``None``. The deadline also applies.
    """

    deadline: float = float("inf")
    seed: int = 0
    threads: int = 1
    memory_limit_mb: float | None = None
    start: Plan | None = None
    listener: Callable[[Plan | None, Bound | None], None] = ignore
    work_limit: int | None = None

    def work_left(self, done: int, otherwise: int) -> int:
        """Return the units of work left after ``done``; ``otherwise`` replaces a missing work limit."""
        return max(0, (otherwise if self.work_limit is None else self.work_limit) - done)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def report(self, plan: Plan | None = None, bound: Bound | None = None) -> None:
        """Report a new incumbent or bound. The bench records it even if the process is killed later."""
        self.listener(plan, bound)


@runtime_checkable
class Scheduler(Protocol):
    """Scheduler: an algorithm that returns a plan for an instance; in practice a frozen dataclass.

    A class may also define:

    - ``warm(self, objective: Objective) -> None`` is called before the clock starts, with the objective of the
      instance. It imports solvers and compiles kernels.
    - ``partitions: ClassVar[frozenset[Partition]]`` names the partitions of GPUs that the scheduler plans. The default
      is shares; a scheduler for MIG needs it.
    - ``own_model: ClassVar[bool] = True`` says that the scheduler predicts latencies by its own model, such as one
      without interference. Its ``feasible`` then refers to that model, and the judge may find violations.
    - ``left_out: ClassVar[Mapping[Objective, str]]`` gives the reason for each objective that is left out on purpose.
    - ``no_services: ClassVar[str]`` says why the scheduler does not plan language-model services: for example,
      because it computes latencies or rates itself and does not use the latency budget.
    - ``write_model(self, instance, file) -> None`` writes the optimisation model that the scheduler solves to a file
      for other solvers. ``model_formats: ClassVar[frozenset[str]]`` has the endings of such files, such as ``.mps``.
    - ``plan_of_solution(self, instance, solution, where) -> tuple[Plan | None, int]`` returns the plan of a solution of
      that model, and the number of its GPUs that did not fit and were repaired. ``solution`` is the text that another
      solver wrote; ``where`` is the place that errors name.
    - ``work_unit: ClassVar[str]``, such as ``"rounds"``, names the unit of work of a scheduler that stops at
      ``run.work_limit``. With a work limit, its result does not depend on the load of the machine. A scheduler without
      a unit ends by itself and ignores the limit.
    """

    name: ClassVar[str]
    objectives: ClassVar[frozenset[Objective]]

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan for ``instance`` within the limits of ``run``."""


class Capable(Protocol):
    """Object with ``objectives``: a scheduler, its class, or a description of a scheduler."""

    @property
    def objectives(self) -> frozenset[Objective]:
        """Objectives that the scheduler solves."""


def partitions(scheduler: object) -> frozenset[Partition]:
    """Return the partitions of GPUs that ``scheduler`` plans."""
    names: frozenset[Partition] = getattr(scheduler, "partitions", frozenset({Partition.SHARES}))
    return names


def has_own_model(scheduler: object) -> bool:
    """Return whether ``scheduler`` predicts latencies by its own model."""
    return bool(getattr(scheduler, "own_model", False))


def work_unit(scheduler: object) -> str:
    """Return the unit in which ``scheduler`` counts its work, or an empty text if it does not count."""
    return str(getattr(scheduler, "work_unit", ""))


def refusal(scheduler: Capable, instance: Instance) -> str | None:
    """Return why ``scheduler`` cannot solve ``instance``, or ``None`` if it can."""
    if instance.objective not in scheduler.objectives:
        supported = ", ".join(sorted(scheduler.objectives)) or "nothing"
        reason = getattr(scheduler, "left_out", {}).get(instance.objective)
        return f"does not solve {instance.objective}{f' ({reason})' if reason else ''}; it solves {supported}"
    if instance.partition not in partitions(scheduler):
        supported = ", ".join(sorted(partitions(scheduler))) or "nothing"
        return f"does not plan GPUs divided by {instance.partition}; it plans {supported}"
    if instance.services and (reason := getattr(scheduler, "no_services", "")):
        return f"does not plan language-model services: {reason}"
    return None

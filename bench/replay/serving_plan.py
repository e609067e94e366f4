"""Serving plan of a replay: a plan with all data that the processes of the replay need."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from bench.judging.judge import check_belongs
from bench.simulation.serving_rules import DispatchRule, offered_rps
from instances import GpuType, InputError, Instance, Objective, Partition, Plan, Slot


@dataclass(frozen=True, slots=True)
class ServedSlot:
    """One slot of an executor.

    Attributes
    ----------
    workload
        Position of the workload in the serving plan.
    dispatch
        Rule for starting batches that are not full.
    cycle_ms
        Duty cycle of the gpulet, if there is one.
    memory_mib
        Memory of the slot according to the catalogue.
    """

    workload: int
    model: str
    batch: int
    rate_rps: float
    slo_ms: float
    dispatch: DispatchRule
    cycle_ms: float | None
    memory_mib: float

    def timeout_ms(self, full_ms: float) -> float:
        """Return the timeout after which a partial batch is ready, if a full batch takes ``full_ms``."""
        return self.dispatch.timeout_ms(self.batch, self.rate_rps, self.slo_ms, self.cycle_ms, full_ms)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the slot from its fields as JSON values."""
        return cls(**data | {"dispatch": DispatchRule(**data["dispatch"])})


@dataclass(frozen=True, slots=True)
class Executor:
    """A gpulet, which runs one batch at a time: its GPU, its position on it, its share in percent, and its slots."""

    gpu: int
    gpulet: int
    share_pct: float
    slots: tuple[ServedSlot, ...]

    @property
    def memory_mib(self) -> float:
        """Memory of all its slots."""
        return sum(slot.memory_mib for slot in self.slots)


@dataclass(frozen=True, slots=True)
class ServedWorkload:
    """A workload: its id, its SLO, and the rate of the requests that are sent."""

    id: str
    slo_ms: float
    offered_rps: float


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """A plan in the form in which it is replayed.

    Attributes
    ----------
    name
        Name of the instance.
    gpu_types
        Types of the plan's GPUs, by position.
    workloads
        Workloads in the order of the instance.
    executors
        All gpulets with slots, GPU by GPU.
    random_routing
        Whether each request goes to one of its workload's slots at random; otherwise the slots take turns.
    """

    name: str
    gpu_types: tuple[str, ...]
    workloads: tuple[ServedWorkload, ...]
    executors: tuple[Executor, ...]
    random_routing: bool = False

    @classmethod
    def of(cls, plan: Plan, instance: Instance) -> Self:
        """Return the serving plan of ``plan`` for ``instance``.

        Raises
        ------
        InputError
            If plans of this kind cannot be replayed, or the plan does not belong to the instance.
        """
        if instance.objective is Objective.COLOCATION:
            raise InputError("plan", "cannot be replayed: best-effort jobs have no requests with an SLO")
        if instance.applications:
            raise InputError("plan", "cannot be replayed: requests of applications visit several workloads")
        if instance.services:
            raise InputError("plan", "cannot be replayed: a replay has no language models")
        if instance.partition is Partition.MIG:
            raise InputError("plan", "cannot be replayed: a replay does not create MIG instances")
        check_belongs(plan, instance)
        offered = offered_rps(plan, instance)
        executors = tuple(_executors(plan, instance))
        if not executors:
            raise InputError("plan", "cannot be replayed: it has no slots")
        return cls(
            instance.name,
            tuple(gpu.type for gpu in plan.gpus),
            tuple(
                ServedWorkload(workload.id, workload.slo_ms, offered[workload.id]) for workload in instance.workloads
            ),
            executors,
            instance.random_routing,
        )

    def memory_mib(self, gpu: int) -> float:
        """Return the memory of all slots on a GPU according to the catalogue."""
        return sum(executor.memory_mib for executor in self.executors if executor.gpu == gpu)


def _executors(plan: Plan, instance: Instance) -> Iterator[Executor]:
    for index, gpu in enumerate(plan.gpus):
        pool = instance.pool(gpu.type)
        assert pool is not None
        for position, gpulet in enumerate(gpu.gpulets):
            share_pct = 100.0 * gpulet.share_units / pool.type.share_units
            slots = tuple(_slot(slot, gpulet.duty_cycle_ms, pool.type, instance) for slot in gpulet.slots)
            yield Executor(index, position, share_pct, slots)


def _slot(slot: Slot, cycle_ms: float | None, gpu: GpuType, instance: Instance) -> ServedSlot:
    position = instance.workload_index[slot.workload]
    workload = instance.workloads[position]
    return ServedSlot(
        workload=position,
        model=workload.model,
        batch=slot.batch,
        rate_rps=slot.rate_rps,
        slo_ms=workload.slo_ms,
        dispatch=DispatchRule.of(instance),
        cycle_ms=cycle_ms,
        memory_mib=gpu.models[workload.model].memory_mib(slot.batch),
    )

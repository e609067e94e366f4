"""Serving plan of a replay: a plan with everything that the serving processes need to know."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

from bench.simulation.offered import offered_rps
from bench.simulation.timeouts import dispatch_timeout_ms
from instances import InputError, Instance, Objective, Partition, Plan, SloRule


@dataclass(frozen=True, slots=True)
class Serving:
    """One slot of an executor.

    Attributes
    ----------
    workload
        Its position in the sheet.
    model, batch, rate_rps, slo_ms
        As planned.
    rule, cycle_ms
        By which its timeout is: see ``dispatch_timeout_ms``.
    latency_buffer
        Factor on the time of a batch where that is set against the SLO.
    memory_mib
        What the catalogue says that it takes.
    """

    workload: int
    model: str
    batch: int
    rate_rps: float
    slo_ms: float
    rule: SloRule
    cycle_ms: float | None
    latency_buffer: float
    memory_mib: float

    def timeout_ms(self, full_ms: float) -> float:
        """Return after how long a batch is ready that is not full, where a full one takes ``full_ms``."""
        promised_ms = self.latency_buffer * full_ms
        return dispatch_timeout_ms(self.rule, self.slo_ms, self.batch, self.rate_rps, self.cycle_ms, promised_ms)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what ``to_json`` wrote as ``data``."""
        return cls(**data | {"rule": SloRule(data["rule"])})


@dataclass(frozen=True, slots=True)
class Executor:
    """What runs one batch at a time: a gpulet, by its GPU and its place there, its share in percent, and its slots."""

    gpu: int
    gpulet: int
    share_pct: float
    slots: tuple[Serving, ...]

    @property
    def memory_mib(self) -> float:
        """Of all its slots."""
        return sum(slot.memory_mib for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Customer:
    """A workload: its id, SLO, and the rate at which its requests are let in."""

    id: str
    slo_ms: float
    offered_rps: float


@dataclass(frozen=True, slots=True)
class Sheet:
    """A plan to be replayed.

    Attributes
    ----------
    name
        Of its instance.
    gpu_types
        Of the plan's GPUs, by position.
    workloads
        In the order of the instance.
    executors
        All gpulets with slots, GPU by GPU.
    """

    name: str
    gpu_types: tuple[str, ...]
    workloads: tuple[Customer, ...]
    executors: tuple[Executor, ...]

    @classmethod
    def of(cls, plan: Plan, instance: Instance) -> Self:
        """Make the sheet of a plan for ``instance``.

        Raises
        ------
        InputError
            If it is of a kind that cannot be replayed, or is none for this instance.
        """
        if instance.objective is Objective.COLOCATION:
            raise InputError("plan", "cannot be replayed: best-effort jobs have no requests to be on time")
        if instance.applications:
            raise InputError("plan", "cannot be replayed: requests of applications visit several workloads")
        if instance.partition is Partition.MIG:
            raise InputError("plan", "cannot be replayed: a replay cuts no GPU into MIG instances")
        offered = offered_rps(plan, instance)
        executors = tuple(_executors(plan, instance))
        if not executors:
            raise InputError("plan", "cannot be replayed: it serves nothing")
        return cls(
            instance.name,
            tuple(gpu.type for gpu in plan.gpus),
            tuple(Customer(w.id, w.slo_ms, offered[w.id]) for w in instance.workloads),
            executors,
        )

    def memory_mib(self, gpu: int) -> float:
        """What the catalogue says that all slots on a GPU take."""
        return sum(executor.memory_mib for executor in self.executors if executor.gpu == gpu)


def _executors(plan: Plan, instance: Instance) -> Iterator[Executor]:
    for g, gpu in enumerate(plan.gpus):
        pool = instance.pool(gpu.type)
        if pool is None:
            raise InputError(f"plan: gpus[{g}].type", f'the instance has no GPU of type "{gpu.type}"')
        for position, gpulet in enumerate(gpu.gpulets):
            slots = []
            for slot in gpulet.slots:
                if slot.workload not in instance.workload_index:
                    raise InputError(f"plan: gpus[{g}]", f'the instance has no workload "{slot.workload}"')
                w = instance.workload_index[slot.workload]
                workload = instance.workloads[w]
                serving = Serving(
                    workload=w,
                    model=workload.model,
                    batch=slot.batch,
                    rate_rps=slot.rate_rps,
                    slo_ms=workload.slo_ms,
                    rule=instance.slo_rule,
                    cycle_ms=gpulet.duty_cycle_ms,
                    latency_buffer=instance.latency_buffer,
                    memory_mib=pool.type.models[workload.model].memory_mib(slot.batch),
                )
                slots.append(serving)
            share_pct = min(100.0, 100.0 * gpulet.share_units / pool.type.share_units)
            yield Executor(g, position, share_pct, tuple(slots))

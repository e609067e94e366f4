"""Replanning with few moves: the cheapest plan found in which at most a given number of services leave their GPU."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bench.api import Run
from bench.fleet.solving import scheduler
from bench.judging.judge import judge
from bench.slack import roomiest_shares
from instances import GpuPool, InputError, Instance, Partition, PlacedGpu, Plan
from instances.errors import FieldName

Contents = tuple[str, frozenset[str]]
"""A GPU type, and the services on one GPU of it."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """A plan with few moves.

    Attributes
    ----------
    plan
        The plan. GPUs of the old plan keep their positions; closed GPUs have no gpulets. Every new GPU is in use.
    moved
        Services that were on another GPU before.
    complete
        Whether every choice of moves was tried before time was up.
    """

    plan: Plan
    moved: tuple[str, ...]
    complete: bool


def replan(instance: Instance, old: Plan, max_moves: int, seconds: float) -> Replanned:
    """Return the cheapest plan found with at most ``max_moves`` moves.

    Shares and batches may change in place, and spare shares go where the slack is least. Services that only the old
    plan has are stopped. The search tries every choice of services to move. First, it moves services off GPUs that can
    no longer serve all of their services. Then it closes GPUs by moving all of their services. A local search plans
    each GPU.

    Raises
    ------
    InputError
        If a service runs on several GPUs, or no plan was found.
    """
    if instance.partition is Partition.MIG:
        problem = f"replanning does not know MIG instances, into which {instance.gpus[0].type.name} is cut; plan anew"
        raise InputError(FieldName("old"), problem)
    home: dict[str, int] = {}
    for position, gpu in enumerate(old.gpus):
        for slot in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
            if home.setdefault(slot.workload, position) != position:
                raise InputError(
                    FieldName("max_moves"), f"{slot.workload} runs on several GPUs; expected one GPU per service"
                )
    names = [workload.id for workload in instance.workloads]
    old_contents: list[Contents] = [
        (gpu.type, frozenset(name for name in names if home.get(name) == position))
        for position, gpu in enumerate(old.gpus)
    ]
    for gpu_type in dict.fromkeys(gpu.type for gpu in old.gpus):
        if instance.pool(gpu_type) is None:
            raise InputError(FieldName("old"), f"the old plan has a {gpu_type}, which is not on offer")
    spare_contents: list[Contents] = []
    new_services = tuple(name for name in names if name not in home)
    for pool in instance.gpus:
        used = sum(gpu_type == pool.type.name for gpu_type, _ in old_contents)
        openable_count = (
            max_moves + len(new_services)
            if pool.count is None
            else min(max_moves + len(new_services), pool.count - used)
        )
        spare_contents += [(pool.type.name, frozenset[str]())] * max(0, openable_count)
    search = _MoveSearch(instance, home, time.monotonic() + seconds)
    search.place((*old_contents, *spare_contents), new_services, max_moves)
    if search.best is None:
        problem = f"{max_moves} moves are not enough" if search.complete else "no plan was found in time"
        raise InputError(FieldName("max_moves"), f"{problem}; allow more moves")
    old_gpus, new_gpus = search.best[: len(old.gpus)], search.best[len(old.gpus) :]
    found_plan = Plan(instance.name, (*old_gpus, *(gpu for gpu in new_gpus if gpu.gpulets)))
    plan = roomiest_shares(found_plan, instance) or found_plan
    new_position = {slot.workload: position for position, _, slot in plan.slots()}
    moved = tuple(name for name in names if name in home and new_position[name] != home[name])
    return Replanned(plan, moved, search.complete)


@dataclass
class _MoveSearch:
    """Depth-first search over the GPUs of the services, from their ``home`` GPUs in the old plan.

    ``planned`` maps contents to a planned GPU, or to ``None`` if no plan was found. ``best`` is the cheapest plan, and
    ``least_cost`` its cost. ``complete`` tells whether the search tried every choice.
    """

    instance: Instance
    home: Mapping[str, int]
    deadline: float
    planned: dict[Contents, PlacedGpu | None] = field(default_factory=dict)
    best: tuple[PlacedGpu, ...] | None = None
    least_cost: float = float("inf")
    complete: bool = True

    def gpu(self, contents: Contents) -> PlacedGpu | None:
        """Return one GPU that serves exactly these services, if one was found."""
        if contents not in self.planned:
            self.planned[contents] = _one_gpu(self.instance, *contents)
        return self.planned[contents]

    def place(self, gpus: tuple[Contents, ...], waiting: tuple[str, ...], moves: int) -> None:
        """Place the waiting services in every way, then move services off overfull GPUs, then close GPUs.

        ``moves`` is the number of services that may still leave their home.
        """
        if time.monotonic() > self.deadline:
            self.complete = False
        elif waiting:
            empty_types: set[str] = set()
            for position, (gpu_type, services) in enumerate(gpus):
                if self.home.get(waiting[0]) == position or (not services and gpu_type in empty_types):
                    continue  # empty GPUs of a type are alike
                if not services:
                    empty_types.add(gpu_type)
                extended = gpu_type, services | {waiting[0]}
                if self.gpu(extended) is not None:
                    self.place((*gpus[:position], extended, *gpus[position + 1 :]), waiting[1:], moves)
        elif (
            overfull := next((index for index, contents in enumerate(gpus) if self.gpu(contents) is None), None)
        ) is not None:
            gpu_type, services = gpus[overfull]
            movable = sorted(name for name in services if self.home.get(name) == overfull) if moves else []
            for service in movable:
                reduced = gpu_type, services - {service}
                self.place((*gpus[:overfull], reduced, *gpus[overfull + 1 :]), (service,), moves - 1)
        else:
            self._accept(gpus)
            for position, (gpu_type, services) in enumerate(gpus):
                if 0 < len(services) <= moves and all(self.home.get(name) == position for name in services):
                    closed = (*gpus[:position], (gpu_type, frozenset[str]()), *gpus[position + 1 :])
                    self.place(closed, tuple(sorted(services)), moves - len(services))

    def _accept(self, gpus: tuple[Contents, ...]) -> None:
        """Keep the plan with these GPUs if it is cheaper than the best plan so far."""
        prices = {pool.type.name: pool.type.price_per_hour for pool in self.instance.gpus}
        cost = sum(prices[gpu_type] for gpu_type, services in gpus if services)
        if cost < self.least_cost - 1e-9:
            self.least_cost = cost
            self.best = tuple(gpu for contents in gpus if (gpu := self.gpu(contents)) is not None)


def _one_gpu(instance: Instance, gpu_type: str, services: frozenset[str]) -> PlacedGpu | None:
    """Return a GPU that serves the services, by local search."""
    if not services:
        return PlacedGpu(gpu_type, ())
    pool = instance.pool(gpu_type)
    assert pool is not None  # the GPU types of the old plan were checked
    one_gpu_instance = replace(
        instance,
        gpus=(GpuPool(pool.type, 1),),
        workloads=tuple(workload for workload in instance.workloads if workload.id in services),
    )
    plan = scheduler("local-search", rounds="100").schedule(one_gpu_instance, Run()).plan
    return plan.gpus[0] if plan is not None and judge(plan, one_gpu_instance).feasible else None

"""Replanning with few moves: the cheapest plan found in which at most a given number of services leave their GPU."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bench.api import Run
from bench.fleet.solving import scheduler
from bench.judging.judge import judge
from instances import GpuPool, InputError, Instance, PlacedGpu, Plan
from instances.errors import FieldName

Contents = tuple[str, frozenset[str]]
"""A GPU type, and the services on one GPU of it."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """A plan with few moves.

    Attributes
    ----------
    plan
        The plan. GPUs of the old plan keep their positions; closed ones have no gpulets. Every further GPU is in use.
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

    Shares and batches may change in place; services that only the old plan has are stopped. The search tries
    every choice of services to move: first services on GPUs that can no longer serve all of theirs, then all services
    of a GPU, which closes it. A local search plans each GPU.

    Raises
    ------
    InputError
        If a service runs on several GPUs, or no plan was found.
    """
    home: dict[str, int] = {}
    for position, gpu in enumerate(old.gpus):
        for slot in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
            if home.setdefault(slot.workload, position) != position:
                raise InputError(
                    FieldName("max_moves"), f"{slot.workload} runs on several GPUs; expected one GPU per service"
                )
    names = [workload.id for workload in instance.workloads]
    kept: list[Contents] = [
        (gpu.type, frozenset(name for name in names if home.get(name) == position))
        for position, gpu in enumerate(old.gpus)
    ]
    for kind in dict.fromkeys(gpu.type for gpu in old.gpus):
        if instance.pool(kind) is None:
            raise InputError(FieldName("old"), f"the old plan has a {kind}, which is not on offer")
    spare: list[Contents] = []
    new = tuple(name for name in names if name not in home)
    for pool in instance.gpus:
        used = sum(kind == pool.type.name for kind, _ in kept)
        most = max_moves + len(new) if pool.count is None else min(max_moves + len(new), pool.count - used)
        spare += [(pool.type.name, frozenset[str]())] * max(0, most)
    search = _MoveSearch(instance, home, time.monotonic() + seconds)
    search.place((*kept, *spare), new, max_moves)
    if search.best is None:
        problem = f"{max_moves} moves are not enough" if search.complete else "no plan was found in time"
        raise InputError(FieldName("max_moves"), f"{problem}; allow more moves")
    here, opened = search.best[: len(old.gpus)], search.best[len(old.gpus) :]
    plan = Plan(instance.name, (*here, *(gpu for gpu in opened if gpu.gpulets)))
    at = {slot.workload: position for position, _, slot in plan.slots()}
    moved = tuple(name for name in names if name in home and at[name] != home[name])
    return Replanned(plan, moved, search.complete)


@dataclass
class _MoveSearch:
    """Depth-first search over the GPUs of the services, from their ``home`` GPUs in the old plan.

    ``planned`` has a GPU for each contents, or ``None`` if no plan was found. ``best`` is the cheapest plan, ``least``
    its cost, and ``complete`` whether nothing was skipped.
    """

    instance: Instance
    home: Mapping[str, int]
    deadline: float
    planned: dict[Contents, PlacedGpu | None] = field(default_factory=dict)
    best: tuple[PlacedGpu, ...] | None = None
    least: float = float("inf")
    complete: bool = True

    def gpu(self, contents: Contents) -> PlacedGpu | None:
        """Return one GPU that serves exactly these services, if one was found."""
        if contents not in self.planned:
            self.planned[contents] = _one_gpu(self.instance, *contents)
        return self.planned[contents]

    def place(self, gpus: tuple[Contents, ...], waiting: tuple[str, ...], moves: int) -> None:
        """Place the waiting services in every way, relieve GPUs that cannot serve all of theirs, then close GPUs."""
        if time.monotonic() > self.deadline:
            self.complete = False
        elif waiting:
            empty: set[str] = set()
            for position, (kind, there) in enumerate(gpus):
                if self.home.get(waiting[0]) == position or (not there and kind in empty):
                    continue  # empty GPUs of a type are alike
                if not there:
                    empty.add(kind)
                together = kind, there | {waiting[0]}
                if self.gpu(together) is not None:
                    self.place((*gpus[:position], together, *gpus[position + 1 :]), waiting[1:], moves)
        elif (full := next((p for p, each in enumerate(gpus) if self.gpu(each) is None), None)) is not None:
            kind, there = gpus[full]
            movable = sorted(name for name in there if self.home.get(name) == full) if moves else []
            for service in movable:
                left = kind, there - {service}
                self.place((*gpus[:full], left, *gpus[full + 1 :]), (service,), moves - 1)
        else:
            self._accept(gpus)
            for position, (kind, there) in enumerate(gpus):
                if 0 < len(there) <= moves and all(self.home.get(name) == position for name in there):
                    closed = (*gpus[:position], (kind, frozenset[str]()), *gpus[position + 1 :])
                    self.place(closed, tuple(sorted(there)), moves - len(there))

    def _accept(self, gpus: tuple[Contents, ...]) -> None:
        prices = {pool.type.name: pool.type.price_per_hour for pool in self.instance.gpus}
        cost = sum(prices[kind] for kind, there in gpus if there)
        if cost < self.least - 1e-9:
            self.least = cost
            self.best = tuple(gpu for each in gpus if (gpu := self.gpu(each)) is not None)


def _one_gpu(instance: Instance, kind: str, services: frozenset[str]) -> PlacedGpu | None:
    """Return a GPU that serves the services, by local search."""
    if not services:
        return PlacedGpu(kind, ())
    pool = instance.pool(kind)
    assert pool is not None  # the GPU types of the old plan were checked
    alone = replace(
        instance,
        gpus=(GpuPool(pool.type, 1),),
        workloads=tuple(workload for workload in instance.workloads if workload.id in services),
    )
    found = scheduler("local-search", rounds="100").schedule(alone, Run()).plan
    return found.gpus[0] if found is not None and judge(found, alone).feasible else None

"""Repacking of a plan: other GPUs, batches and shares for its slots, at no higher cost, by ruin and recreate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from instances import GpuPool, Instance, Objective, Partition, PlacedGpu, Plan, SloRule, Workload, spatial_gpu
from instances.arrays import Floats, Ints
from instances.catalogue import gpu_type
from instances.configurations import Configurations, lean_configurations
from instances.ruin_recreate.problem import PackingProblem
from instances.ruin_recreate.search import PackingSearch
from instances.view import View

BATCHES = 16
"""Number of batches tried for a slot: those with the smallest least shares alone on a GPU."""


def repacked(plan: Plan, instance: Instance, most_per_hour: float, rounds: int, deadline: float = inf) -> Plan | None:
    """Return a plan for the slots of ``plan``, or ``None`` if none is found.

    GPUs of the plan whose slots still meet their SLOs stay together at first; the other slots are placed anew. Every
    round then removes the slots of a few GPUs and places them again (``instances.ruin_recreate``). Unless the deadline
    cuts the search short, the result depends on the other arguments only.

    Parameters
    ----------
    plan
        Plan without slots that take turns, on GPUs that are not cut into MIG instances; for other plans the result is
        ``None``.
    most_per_hour
        Largest price of the GPUs in use, in dollars per hour.
    rounds
        Largest number of rounds.
    deadline
        ``time.monotonic()`` value at which the search stops.
    """
    takes_turns = any(gpulet.duty_cycle_ms is not None for gpu in plan.gpus for gpulet in gpu.gpulets)
    if instance.partition is Partition.MIG or takes_turns:
        return None
    packing = _Packing.of(plan, instance)
    if not np.isfinite(packing.size).all():
        return None  # some slot does not meet its SLO alone on any GPU
    search = packing.search()
    search.limit_cost(most_per_hour)
    for type_index, rows in packing.rows_of_gpus(plan):
        search.take_over(type_index, rows)
    search.build()
    search.limit_cost(most_per_hour)  # the plan itself may cost more
    search.run(rounds, deadline)
    return None if search.waiting else Plan(plan.instance, tuple(packing.gpus(search)))


def warm_repacking() -> None:
    """Run the kernels once, so that they are loaded before time is measured."""
    pool = GpuPool(gpu_type("v100"), 1)
    workload = Workload("a", "alexnet", 100.0, 1.0)
    instance = Instance("tiny", Objective.COST, SloRule.HALF_SLO, "igniter", (pool,), (workload,))
    plan = Plan("tiny", (spatial_gpu("v100", [("a", pool.type.share_units, 1, 1.0)]),))
    packing = _Packing.of(plan, instance)
    search = packing.search()
    for type_index, rows in packing.rows_of_gpus(plan):
        search.take_over(type_index, rows)
    search.build()
    search.limit_cost(0.0)
    search.run(1, inf)


@dataclass(frozen=True, slots=True)
class _Packing:
    """Slots of a plan, the items of the search, and their configurations by GPU type.

    Attributes
    ----------
    batch
        Batch of each slot in the plan, shape (slots,).
    size
        Least price of the share that serves each slot alone, shape (slots,); infinite if none does. If GPUs of a type
        are free, shares take the place of prices.
    """

    views: Sequence[View]
    configurations: Sequence[Configurations]
    batch: Ints
    size: Floats

    @classmethod
    def of(cls, plan: Plan, instance: Instance) -> "_Packing":
        views = [View.of(instance, pool.type) for pool in instance.gpus]
        slots = [slot for _, _, slot in plan.slots()]
        workload = np.array([instance.workload_index[slot.workload] for slot in slots], dtype=np.int64)
        rate_rps = np.array([slot.rate_rps for slot in slots], dtype=np.float64)
        batch = np.array([slot.batch for slot in slots], dtype=np.int64)
        configurations = [lean_configurations(view, workload, rate_rps, batch, BATCHES) for view in views]
        prices = [view.gpu.price_per_hour for view in views]
        size = np.full(len(slots), inf)
        for view, type_configurations, price in zip(views, configurations, prices, strict=True):
            share = type_configurations.units / view.tables.share_units
            np.minimum.at(size, type_configurations.item, share * (price if min(prices) > 0.0 else 1.0))
        return cls(views, configurations, batch, size)

    @property
    def first_row(self) -> Ints:
        """Number of each type's first configuration among the configurations of all types, shape (types + 1,)."""
        return np.cumsum([0, *(type_configurations.size for type_configurations in self.configurations)])

    def search(self) -> PackingSearch:
        """Return a search in which all slots wait."""
        slots = len(self.batch)
        counts = [pool.count for pool in self.views[0].instance.gpus]
        limits = [slots if count is None else min(count, slots) for count in counts]
        problem = PackingProblem.of(self.views, limits, self.configurations, self.size, self.size)
        return PackingSearch(problem, np.random.default_rng(0))

    def rows_of_gpus(self, plan: Plan) -> Iterator[tuple[int, Ints]]:
        """Yield the type of each GPU of the plan, and the numbers of its slots' configurations.

        Slots whose batch has no configuration are left out, and so are GPUs without any other slots.
        """
        type_of = {view.gpu.name: position for position, view in enumerate(self.views)}
        item = 0
        for gpu in plan.gpus:
            type_configurations, first_row = self.configurations[type_of[gpu.type]], self.first_row[type_of[gpu.type]]
            rows: list[int] = []
            for _ in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
                candidates = np.arange(type_configurations.first[item], type_configurations.first[item + 1])
                rows += (first_row + candidates[type_configurations.batch[candidates] == self.batch[item]][:1]).tolist()
                item += 1
            if rows:
                yield type_of[gpu.type], np.array(rows, dtype=np.int64)

    def gpus(self, search: PackingSearch) -> Iterator[PlacedGpu]:
        """Yield the GPUs of the best packing."""
        for type_index, joined_rows, units in search.gpus():
            type_configurations, rows = self.configurations[type_index], joined_rows - self.first_row[type_index]
            slots = (
                type_configurations.workload[rows],
                units,
                type_configurations.batch[rows],
                type_configurations.rate_rps[rows],
            )
            yield self.views[type_index].placed(*slots)

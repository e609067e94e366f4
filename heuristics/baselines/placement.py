"""Partial plan on a pool of several GPU types: the state of the reference heuristics."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from heuristics.baselines.insertion import fill, insert, take_out
from heuristics.baselines.items import items_of, whole_items
from heuristics.fleet import Fleet
from heuristics.tiny import tiny_instance
from instances import Instance, Objective, PlacedGpu, Plan
from instances.arrays import Floats, Ints
from instances.configurations import BATCHES_TRIED, Configurations, lean_configurations
from instances.costs import next_cost
from instances.tolerance import TOLERANCE
from instances.view import View

ROUNDING = 1e-9
"""Relative tolerance on sums of prices."""

EQUAL = 1e-6
"""Relative difference below which two costs, or two sums of sizes, count as equal."""


@dataclass(frozen=True)
class PlacementProblem:
    """Items to place, and for each GPU type a view of the instance and the configurations of the items.

    Attributes
    ----------
    workload, rate_rps
        Position in the instance and rate of each item (under ``goodput`` the largest rate), shape (items,).
    """

    views: tuple[View, ...]
    workload: Ints
    rate_rps: Floats
    configurations: tuple[Configurations, ...]

    @classmethod
    def of(
        cls, instance: Instance, start: Plan | None = None, batches: int | Sequence[int] | None = None
    ) -> "PlacementProblem":
        """Divide the workloads of an instance into items; with a start plan, the slots of the plan are items.

        See ``lean_configurations`` for ``batches``; ``None`` stands for every batch under ``capacity``, and for
        ``BATCHES_TRIED`` under other objectives.

        Raises
        ------
        UnservableError
            See ``whole_items``.
        """
        views = tuple(View.of(instance, pool.type) for pool in instance.gpus)
        if batches is None:
            largest = max(view.tables.max_batch.max() for view in views)
            batches = range(1, largest + 1) if instance.objective is Objective.CAPACITY else BATCHES_TRIED
        workload, rate_rps, batch = (*whole_items(views), None) if start is None else items_of(start, views)
        configurations = (lean_configurations(view, workload, rate_rps, batch, batches) for view in views)
        return cls(views, workload, rate_rps, tuple(configurations))

    @property
    def instance(self) -> Instance:
        """The instance."""
        return self.views[0].instance

    @cached_property
    def size(self) -> Floats:
        """Least fraction of a GPU that serves each item at its full rate, shape (items,); infinite if none does.

        Under ``goodput``, an item that can be served only in part counts at its best ratio of rate to share.
        """
        least_part = np.full(len(self.workload), np.inf)
        for view, configurations in zip(self.views, self.configurations, strict=True):
            part = (
                configurations.units
                / view.tables.share_units
                * (self.rate_rps[configurations.item] / configurations.rate_rps)
            )
            np.minimum.at(least_part, configurations.item, part)
        return least_part

    def placed(self, type_index: int, rows: Ints, units: Ints) -> PlacedGpu:
        """Return the GPU of type ``type_index`` with these configurations (rows) and shares of its residents."""
        configurations = self.configurations[type_index]
        batch, rate_rps = configurations.batch[rows], configurations.rate_rps[rows]
        return self.views[type_index].placed(configurations.workload[rows], units, batch, rate_rps)

    @cached_property
    def least_price(self) -> Floats:
        """Least price in dollars per hour of the share that serves each item alone, shape (items,)."""
        least_price = np.full(len(self.workload), np.inf)
        for view, configurations in zip(self.views, self.configurations, strict=True):
            price = view.gpu.price_per_hour * configurations.units / view.tables.share_units
            np.minimum.at(least_price, configurations.item, price)
        return least_price

    @property
    def least_cost(self) -> float:
        """Lower bound on the cost per hour, as if the least shares filled whole GPUs without gaps."""
        return next_cost(float(self.least_price.sum()), self.instance)

    @property
    def could_fit(self) -> bool:
        """Whether the sizes of all items add up to at most the GPUs of the pool; the pool must limit every type."""
        gpus = sum(pool.count or 0 for pool in self.instance.gpus)
        return float(self.size.sum()) <= gpus * (1.0 + EQUAL)

    def shortage(self, waiting: int) -> str:
        """Return the number of unplaced items and the pool, as the reason for a missing plan."""
        pool = ", ".join(pool.in_words for pool in self.instance.gpus)
        return f"{waiting} of {len(self.workload)} workloads (or parts) do not fit on {pool}"

    def cheapest_first(self) -> list[int]:
        """Return the GPU types, cheapest first, by the cost of serving the items that all types can serve."""
        least_part = np.full((len(self.views), len(self.workload)), np.inf)
        for row, view, configurations in zip(least_part, self.views, self.configurations, strict=True):
            np.minimum.at(row, configurations.item, configurations.units / view.tables.share_units)
        load = np.sum(least_part, axis=1, where=np.all(np.isfinite(least_part), axis=0))
        prices = np.array([view.gpu.price_per_hour for view in self.views])
        return [int(type_index) for type_index in np.lexsort((prices, load * prices))]


@dataclass
class Placement:
    """Placed items on the GPUs of each type (``fleets``), and the unplaced items (``waiting``)."""

    problem: PlacementProblem
    fleets: list[Fleet]
    waiting: Ints

    @classmethod
    def empty(cls, problem: PlacementProblem) -> "Placement":
        """Return the empty placement: all items wait."""
        fleets = []
        for pool, view in zip(problem.instance.gpus, problem.views, strict=True):
            items = len(problem.workload)
            gpus = items if pool.count is None else min(pool.count, items)
            fleets.append(Fleet.empty(gpus, view.tables.share_units))
        return cls(problem, fleets, np.arange(len(problem.workload), dtype=np.int64))

    def copied(self) -> "Placement":
        """Return a copy that can change independently."""
        return Placement(self.problem, [fleet.copied() for fleet in self.fleets], self.waiting)

    @property
    def cost_per_hour(self) -> float:
        """Price of the GPUs in use."""
        prices = [view.gpu.price_per_hour for view in self.problem.views]
        return sum(np.count_nonzero(f.residents) * price for f, price in zip(self.fleets, prices, strict=True))

    def insert(
        self,
        types: Sequence[int],
        random: np.random.Generator,
        at_random: bool = False,
        blink: float = 0.0,
        cost_limit: float = inf,
    ) -> None:
        """Place the waiting items in their order by the rule of ``insertion.insert``.

        Full rates are tried before lower ones, GPUs in use before new ones, and GPU types in the order of ``types``.
        """
        full_step = max(
            (int(configurations.step.max(initial=1)) for configurations in self.problem.configurations), default=1
        )
        one_type = len(types) == 1  # then the kernel itself tries full rates and GPUs in use first
        least_steps = (1,) if one_type or full_step == 1 else (full_step, 1)
        for least_step in least_steps:
            for may_open in (True,) if one_type else (False, True):
                for type_index in types:
                    openable = self._affordable(type_index, cost_limit) if may_open else 0
                    type_state = (
                        self.problem.views[type_index].tables,
                        self.problem.configurations[type_index],
                        self.fleets[type_index],
                    )
                    self.waiting = insert(*type_state, self.waiting, openable, least_step, at_random, blink, random)

    def _affordable(self, type_index: int, cost_limit: float) -> int:
        """Return the number of further GPUs of type ``type_index`` within the cost limit."""
        price = self.problem.views[type_index].gpu.price_per_hour
        unused = int(np.count_nonzero(self.fleets[type_index].residents == 0))
        if price <= 0.0 or cost_limit == inf:
            return unused
        return min(unused, int((cost_limit - self.cost_per_hour) / price * (1.0 + ROUNDING)))

    def take_out(self, type_index: int, random: np.random.Generator, emptied: int = 1, thinned: int = 0) -> None:
        """Remove residents from GPUs of type ``type_index`` by the rule of ``insertion.take_out``; their items wait."""
        view, configurations = self.problem.views[type_index], self.problem.configurations[type_index]
        removed = take_out(view.tables, configurations, self.fleets[type_index], emptied, thinned, random)
        self.waiting = np.concatenate([self.waiting, removed])

    def take_over(self, start: Plan) -> None:
        """Fill empty GPUs with the slots of ``start``; GPUs that violate a latency budget are left out.

        A slot keeps its batch and rate. Gpulets whose slots take turns are left out. All other items wait.
        """
        type_names = [view.gpu.name for view in self.problem.views]
        next_empty = [0] * len(self.fleets)
        placed: set[int] = set()
        for gpu in start.gpus:
            if gpu.type not in type_names:
                continue
            type_index = type_names.index(gpu.type)
            fleet = self.fleets[type_index]
            if next_empty[type_index] == len(fleet.residents):
                continue
            rows = list(self._rows(gpu, type_index, placed))
            tables, configurations = self.problem.views[type_index].tables, self.problem.configurations[type_index]
            row_array = np.array(rows, dtype=np.int64)
            if rows and fill(tables, configurations, fleet, next_empty[type_index], row_array, len(rows)):
                next_empty[type_index] += 1
                placed.update(int(configurations.item[row]) for row in rows)
        self.waiting = np.array([i for i in self.waiting.tolist() if i not in placed], dtype=np.int64)

    def _rows(self, gpu: PlacedGpu, type_index: int, placed: set[int]) -> Iterator[int]:
        """Yield the row of each slot of ``gpu`` that is a configuration of an unplaced item."""
        problem, configurations = self.problem, self.problem.configurations[type_index]
        on_this_gpu: set[int] = set()
        for slot in (slot for gpulet in gpu.gpulets if gpulet.duty_cycle_ms is None for slot in gpulet.slots):
            for item in np.flatnonzero(problem.workload == problem.instance.workload_index.get(slot.workload, -1)):
                rows = np.arange(configurations.first[item], configurations.first[item + 1])
                same_rate = np.abs(configurations.rate_rps[rows] - slot.rate_rps) <= TOLERANCE * slot.rate_rps
                rows = rows[same_rate & (configurations.batch[rows] == slot.batch)]
                if len(rows) and int(item) not in placed | on_this_gpu:
                    on_this_gpu.add(int(item))
                    yield int(rows[0])
                    break

    def gpus(self) -> tuple[PlacedGpu, ...]:
        """Return the GPUs in use."""
        return tuple(
            self.problem.placed(type_index, fleet.row[g, :count], fleet.units[g, :count])
            for type_index, fleet in enumerate(self.fleets)
            for g, count in enumerate(fleet.residents.tolist())
            if count
        )

    def close_emptiest(self, cost_limit: float) -> None:
        """Empty GPUs until the others cost at most ``cost_limit``; GPUs that serve least per dollar come first."""
        while self.cost_per_hour > cost_limit:
            size_per_dollar = []
            for type_index, fleet in enumerate(self.fleets):
                price = self.problem.views[type_index].gpu.price_per_hour
                for gpu in np.flatnonzero(fleet.residents).tolist():
                    size = self.problem.size[self._items_on(type_index, gpu)].sum()
                    size_per_dollar.append((size / price if price > 0.0 else inf, type_index, gpu))
            _, type_index, gpu = min(size_per_dollar)
            self.waiting = np.concatenate([self.waiting, self._items_on(type_index, gpu)])
            tables, configurations = self.problem.views[type_index].tables, self.problem.configurations[type_index]
            fleet = self.fleets[type_index]
            fill(tables, configurations, fleet, gpu, fleet.row[gpu], 0)

    def _items_on(self, type_index: int, gpu: int) -> Ints:
        """Return the items of the residents of one GPU."""
        fleet = self.fleets[type_index]
        return self.problem.configurations[type_index].item[fleet.row[gpu, : fleet.residents[gpu]]]

    def shortage(self) -> str:
        """Return the number of unplaced items and the pool, as the reason for a missing plan."""
        return self.problem.shortage(len(self.waiting))


def order_waiting(placement: Placement, random: np.random.Generator, noise: float) -> None:
    """Order the waiting items: large before small, under ``goodput`` by decreasing requests per share.

    Logarithmic noise of standard deviation ``noise`` changes the order; 0 leaves the exact order and ties unchanged.
    """
    problem, items = placement.problem, placement.waiting
    key = problem.size[items]
    if problem.instance.objective is Objective.GOODPUT:
        key = problem.rate_rps[items] / key
    if noise > 0.0:
        key = key * np.exp(noise * random.standard_normal(len(items)))
    placement.waiting = items[np.argsort(-key, kind="stable")]


def greedy_placement(instance: Instance, random: np.random.Generator, start: Plan | None = None) -> Placement:
    """Place the slots of the start plan, then the other items, largest first."""
    problem = PlacementProblem.of(instance, start)
    placement = Placement.empty(problem)
    if start is not None:
        placement.take_over(start)
    order_waiting(placement, random, noise=0.0)
    placement.insert(problem.cheapest_first(), random)
    return placement


def tiny_problem() -> PlacementProblem:
    """Return the items of the tiny instance and their configurations, on which kernels are loaded."""
    return PlacementProblem.of(tiny_instance(Objective.COST))


def warm_placement() -> None:
    """Run the kernels once on a tiny instance, so that they are loaded before time is measured."""
    random = np.random.default_rng(0)
    placement = Placement.empty(tiny_problem())
    placement.insert([0], random)
    placement.take_out(0, random)

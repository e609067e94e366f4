"""Partial plan on a pool of several GPU types: the state of the reference searches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from heuristics.baselines.fleet import Fleet, fill, insert, placed_gpu, take_out
from heuristics.options import RATE_TOLERANCE, ItemOptions, Items, options_of, whole_items
from heuristics.tiny import tiny_instance
from instances import Instance, Objective, PlacedGpu, Plan
from instances.arrays import Floats, Ints
from instances.view import View

ROUNDING = 1e-9
"""Relative tolerance on sums of prices."""


@dataclass(frozen=True)
class PlacementMarket:
    """Items to place, and their options on each GPU type.

    Attributes
    ----------
    views
        The instance as seen from each GPU type.
    items
        Items to place.
    options
        Options of the items, for each GPU type.
    """

    views: tuple[View, ...]
    items: Items
    options: tuple[ItemOptions, ...]

    @classmethod
    def of(cls, views: Sequence[View], items: Items) -> "PlacementMarket":
        """Compute the options of ``items``."""
        return cls(tuple(views), items, tuple(options_of(view, items) for view in views))

    @property
    def instance(self) -> Instance:
        """The instance."""
        return self.views[0].instance

    @cached_property
    def size(self) -> Floats:
        """Least fraction of a GPU that serves each item at its full rate, shape (items,); infinite if none does.

        Under ``goodput``, an item that can be served only in part counts at its best ratio of rate to share.
        """
        least = np.full(len(self.items.workload), np.inf)
        for view, options in zip(self.views, self.options, strict=True):
            part = options.units / view.tables.share_units * (self.items.rate_rps[options.item] / options.rate_rps)
            np.minimum.at(least, options.item, part)
        return least

    def cheapest_first(self) -> list[int]:
        """Return the GPU types by the cost of serving the items that all types can serve, cheapest first."""
        least = np.full((len(self.views), len(self.items.workload)), np.inf)
        for row, view, options in zip(least, self.views, self.options, strict=True):
            np.minimum.at(row, options.item, options.units / view.tables.share_units)
        load = np.sum(least, axis=1, where=np.all(np.isfinite(least), axis=0))
        prices = np.array([view.gpu.price_per_hour for view in self.views])
        return [int(o) for o in np.lexsort((prices, load * prices))]


@dataclass
class Placement:
    """Placed items on the GPUs of each type, and the unplaced items.

    Attributes
    ----------
    market
        Items and options.
    fleets
        The GPUs of each type.
    waiting
        Unplaced items.
    """

    market: PlacementMarket
    fleets: list[Fleet]
    waiting: Ints

    @classmethod
    def empty(cls, market: PlacementMarket) -> "Placement":
        """Return the empty placement: all items wait."""
        fleets = []
        for pool, view in zip(market.instance.gpus, market.views, strict=True):
            items = len(market.items.workload)
            gpus = items if pool.count is None else min(pool.count, items)
            fleets.append(Fleet.empty(gpus, view.tables.share_units))
        return cls(market, fleets, np.arange(len(market.items.workload), dtype=np.int64))

    def copied(self) -> "Placement":
        """Return a deep copy of the state that changes."""
        return Placement(self.market, [fleet.copied() for fleet in self.fleets], self.waiting)

    @property
    def cost_per_hour(self) -> float:
        """Price of the GPUs in use."""
        prices = [view.gpu.price_per_hour for view in self.market.views]
        return sum(np.count_nonzero(f.residents) * price for f, price in zip(self.fleets, prices, strict=True))

    def insert(
        self,
        types: Sequence[int],
        random: np.random.Generator,
        at_random: bool = False,
        blink: float = 0.0,
        cost_limit: float = inf,
    ) -> None:
        """Place the waiting items in their order by the rule of ``fleet.insert``.

        Full rates are tried before lower ones, GPUs in use before new ones, and the GPU types in the order of
        ``types``.
        """
        full_step = max((int(options.step.max(initial=1)) for options in self.market.options), default=1)
        one_type = len(types) == 1
        for least_step in (1,) if one_type or full_step == 1 else (full_step, 1):
            for may_open in (True,) if one_type else (False, True):
                for o in types:
                    openable = self._affordable(o, cost_limit) if may_open else 0
                    self._insert(o, openable, least_step, at_random, blink, random)

    def _affordable(self, o: int, cost_limit: float) -> int:
        """Return the number of further GPUs of type ``o`` within the cost limit."""
        price = self.market.views[o].gpu.price_per_hour
        unused = int(np.count_nonzero(self.fleets[o].residents == 0))
        if price <= 0.0 or cost_limit == inf:
            return unused
        return min(unused, int((cost_limit - self.cost_per_hour) / price * (1.0 + ROUNDING)))

    def _insert(
        self, o: int, openable: int, least_step: int, at_random: bool, blink: float, random: np.random.Generator
    ) -> None:
        self.waiting = insert(
            self.market.views[o].tables,
            self.market.options[o],
            self.fleets[o],
            self.waiting,
            openable,
            least_step,
            at_random,
            blink,
            random,
        )

    def take_out(self, o: int, random: np.random.Generator, emptied: int = 1, thinned: int = 0) -> None:
        """Remove residents from GPUs of type ``o`` by the rule of ``fleet.take_out``; they wait."""
        view, options = self.market.views[o], self.market.options[o]
        out = take_out(view.tables, options, self.fleets[o], emptied, thinned, random)
        self.waiting = np.concatenate([self.waiting, out])

    def take_over(self, start: Plan) -> None:
        """Fill empty GPUs as in ``start``, as far as its GPUs meet their latency budgets; the other items wait.

        A slot keeps its batch and rate. Gpulets whose slots take turns are not taken over.
        """
        free = [0] * len(self.fleets)
        placed: set[int] = set()
        for gpu in start.gpus:
            o = next((o for o, view in enumerate(self.market.views) if view.gpu.name == gpu.type), None)
            if o is None or free[o] == len(self.fleets[o].residents):
                continue
            rows = list(self._rows(gpu, o, placed))
            tables, options = self.market.views[o].tables, self.market.options[o]
            if rows and fill(tables, options, self.fleets[o], free[o], np.array(rows, dtype=np.int64), len(rows)):
                free[o] += 1
                placed.update(int(options.item[row]) for row in rows)
        self.waiting = np.array([i for i in self.waiting.tolist() if i not in placed], dtype=np.int64)

    def _rows(self, gpu: PlacedGpu, o: int, placed: set[int]) -> Iterator[int]:
        """Yield the option row of every slot of ``gpu`` that is an option of an unplaced item."""
        items, options = self.market.items, self.market.options[o]
        here: set[int] = set()
        for slot in (slot for gpulet in gpu.gpulets if gpulet.duty_cycle_ms is None for slot in gpulet.slots):
            for item in np.flatnonzero(items.workload == self.market.instance.workload_index.get(slot.workload, -1)):
                rows = np.arange(options.first[item], options.first[item + 1])
                same_rate = np.abs(options.rate_rps[rows] - slot.rate_rps) <= RATE_TOLERANCE * slot.rate_rps
                rows = rows[same_rate & (options.batch[rows] == slot.batch)]
                if len(rows) and int(item) not in placed | here:
                    here.add(int(item))
                    yield int(rows[0])
                    break

    def gpus(self) -> tuple[PlacedGpu, ...]:
        """Return the GPUs in use."""
        parts = zip(self.fleets, self.market.views, self.market.options, strict=True)
        return tuple(
            placed_gpu(view, self.market.items, options, fleet.row[g, :count], fleet.units[g, :count])
            for fleet, view, options in parts
            for g, count in enumerate(fleet.residents.tolist())
            if count
        )

    def close_emptiest(self, cost_limit: float) -> None:
        """Empty GPUs until the others cost at most ``cost_limit``, the least served for its price first."""
        while self.cost_per_hour > cost_limit:
            used = []
            for o, (fleet, options) in enumerate(zip(self.fleets, self.market.options, strict=True)):
                price = self.market.views[o].gpu.price_per_hour
                for g in np.flatnonzero(fleet.residents).tolist():
                    served = self.market.size[options.item[fleet.row[g, : fleet.residents[g]]]].sum()
                    used.append((served / price if price > 0.0 else inf, o, g))
            _, o, g = min(used)
            fleet = self.fleets[o]
            out = self.market.options[o].item[fleet.row[g, : fleet.residents[g]]]
            self.waiting = np.concatenate([self.waiting, out])
            fill(self.market.views[o].tables, self.market.options[o], fleet, g, fleet.row[g], 0)

    def shortage(self) -> str:
        """Return one line about the unplaced items."""
        pool = ", ".join(
            f"{'any number of' if pool.count is None else pool.count} {pool.type.name}"
            for pool in self.market.instance.gpus
        )
        return f"{len(self.waiting)} of {len(self.market.items.workload)} do not fit on {pool}"


def tiny_market() -> PlacementMarket:
    """Return the market of the tiny instance, for loading kernels."""
    instance = tiny_instance(Objective.COST)
    view = View.of(instance, instance.gpus[0].type)
    return PlacementMarket.of([view], whole_items([view]))


def warm_placement() -> None:
    """Run the kernels once on a tiny instance, so that they are loaded before time is measured."""
    random = np.random.default_rng(0)
    placement = Placement.empty(tiny_market())
    placement.insert([0], random)
    placement.take_out(0, random)

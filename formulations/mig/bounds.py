"""Lower bounds on the cost from duals of MIG instances.

Let every kind of MIG instance have a dual such that the duals of a layout never sum to more than the price of its GPU.
The GPUs of any plan then cost at least the duals of their MIG instances. A cover of a workload is a set of MIG
instances that serves the workload. So the cost is at least the sum, over the workloads, of the duals of their cheapest
covers. The best duals are those of a restricted master over fractional covers and layouts, which generates covers as
columns.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bench.api import Duals, Run
from formulations.highs import new_highs, reset_threads
from formulations.mig.offers import Offers
from instances import Instance
from instances.arrays import Floats
from instances.costs import next_cost

NODE_LIMIT = 20_000
"""Largest number of nodes in the search for one cover."""


class MigCover(NamedTuple):
    """Cheapest cover of a workload that was found, with a lower bound on the sum of duals of every cover.

    Attributes
    ----------
    least_cost
        The bound: the sum of this cover's duals, or less if the search was cut short.
    numbers
        Number of MIG instances of each kind.
    """

    least_cost: int
    numbers: tuple[int, ...]


def cheapest_cover(duals: Sequence[int], rates: Sequence[int], demand: int, node_limit: int = NODE_LIMIT) -> MigCover:
    """Return the cheapest integer cover of ``demand``, by depth-first search in exact arithmetic.

    Parameters
    ----------
    duals, rates
        Dual and rate of one MIG instance of each kind. A kind of rate 0 serves nothing; at least one rate is positive.
    demand
        Positive demand, in the unit of the rates.
    node_limit
        Nodes after which the search stops; ``least_cost`` is then the value of the fractional optimum.
    """
    # By increasing dual per request, so the next kind's ratio bounds the cost of the remaining demand from below.
    order = sorted(
        (k for k in range(len(rates)) if rates[k] > 0), key=lambda k: (Fraction(duals[k], rates[k]), -rates[k])
    )
    fractional_bound = _ceil(demand * duals[order[0]], rates[order[0]])
    single_kind_count = _ceil(demand, rates[order[0]])
    least_cost, cheapest_numbers = single_kind_count * duals[order[0]], [single_kind_count]
    numbers_so_far: list[int] = []
    nodes = 0

    def search(remaining: int, cost_so_far: int) -> None:
        nonlocal least_cost, cheapest_numbers, nodes
        depth = len(numbers_so_far)
        kind = order[depth]
        number_needed = _ceil(remaining, rates[kind])
        if cost_so_far + number_needed * duals[kind] < least_cost:
            least_cost, cheapest_numbers = cost_so_far + number_needed * duals[kind], [*numbers_so_far, number_needed]
        if depth + 1 == len(order):
            return
        next_kind = order[depth + 1]
        for number in range(number_needed - 1, -1, -1):
            nodes += 1
            still_remaining, new_cost = remaining - number * rates[kind], cost_so_far + number * duals[kind]
            # The next kind costs at least as much per request, so with even fewer MIG instances of this kind the bound
            # is no lower.
            if (
                new_cost + _ceil(still_remaining * duals[next_kind], rates[next_kind]) >= least_cost
                or nodes > node_limit
            ):
                return
            numbers_so_far.append(number)
            search(still_remaining, new_cost)
            numbers_so_far.pop()

    search(demand, 0)
    numbers = [0] * len(rates)
    for kind, number in zip(order, cheapest_numbers, strict=False):
        numbers[kind] = number
    return MigCover(least_cost if nodes <= node_limit else fractional_bound, tuple(numbers))


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


ROUNDS = 200
"""Largest number of solutions of the restricted master."""

_PER_REQUEST = 10**6
"""Integer steps of a rate of one request per second."""

_PER_DOLLAR = 2**32
"""Integer steps of a dual or price of one dollar per hour."""

_SLACK = 3e-9
"""Fraction that is subtracted from every demand: more than the judge's tolerances on rates and on their sums."""


class DualBound(NamedTuple):
    """Certified lower bound on the cost, with the duals that prove it."""

    value: float
    duals: Duals


def bounds(instance: Instance, offers: Offers, run: Run) -> Iterator[DualBound]:
    """Yield increasing lower bounds on the cost, each valid by itself, until no duals can prove a higher one.

    A bound above the price of the whole pool proves that the pool is too small.
    """
    pricing = _Pricing(instance, offers)
    master = _Master(instance, offers, run.threads)
    best_bound = -math.inf
    for _ in range(ROUNDS):
        master_value, instance_duals, workload_duals = master.solve()
        bound, covers = pricing.bound(instance_duals)
        if bound.value > best_bound:
            best_bound = bound.value
            yield bound
        # No duals prove a bound above the master's value.
        if next_cost(best_bound, instance) >= next_cost(master_value, instance) or run.remaining_s <= 0.0:
            return
        if not master.add(covers, instance_duals, workload_duals):
            return


class _Pricing:
    """Bounds in integers: rates are rounded up, demands and GPU prices down, so that every bound is certified."""

    def __init__(self, instance: Instance, offers: Offers) -> None:
        self._offers = offers
        self._rates = [[_rounded_up(rate * _PER_REQUEST) for rate in row] for row in offers.rate_rps.tolist()]
        self._demands = [math.floor(w.rate_rps * (1.0 - _SLACK) * _PER_REQUEST) for w in instance.workloads]
        self._gpu_prices = [math.floor(pool.type.price_per_hour * _PER_DOLLAR) for pool in instance.gpus]
        self._available = [pool.count for pool in instance.gpus]

    def bound(self, instance_duals: Floats) -> tuple[DualBound, list[MigCover]]:
        """Return a bound from ``instance_duals``, lowered where needed, and the cheapest cover of every workload."""
        duals = [max(0, math.floor(dual * _PER_DOLLAR)) for dual in instance_duals.tolist()]
        total = 0
        worths = []
        for pool, gpu_price in enumerate(self._gpu_prices):
            layout_worth = max(
                sum(int(number) * dual for number, dual in zip(numbers_by_kind, duals, strict=True))
                for (position, _), numbers_by_kind in zip(self._offers.layouts, self._offers.count, strict=True)
                if position == pool
            )
            worths.append(layout_worth)
            gpu_count = self._available[pool]
            if layout_worth <= gpu_price:
                continue
            if gpu_count is None:
                worths[pool] = gpu_price
                for kind, (position, _) in enumerate(self._offers.kinds):
                    if position == pool:
                        duals[kind] = duals[kind] * gpu_price // layout_worth
            else:  # on each available GPU, the duals may sum to this much more than its price
                total -= gpu_count * (layout_worth - gpu_price)
        covers = [
            cheapest_cover(duals, rates, demand) for rates, demand in zip(self._rates, self._demands, strict=True)
        ]
        total += sum(cover.least_cost for cover in covers)
        value = max(0.0, math.nextafter(total / _PER_DOLLAR, -math.inf))
        return DualBound(value, self._duals(duals, worths, covers)), covers

    def _duals(self, duals: Sequence[int], worths: Sequence[int], covers: Sequence[MigCover]) -> Duals:
        """Return the integers that prove the bound, converted to dollars per hour."""
        return Duals(
            workloads=tuple(cover.least_cost / _PER_DOLLAR for cover in covers),
            gpus=tuple(worth / _PER_DOLLAR for worth in worths),
            slices=tuple(
                tuple(
                    dual / _PER_DOLLAR
                    for dual, (position, _) in zip(duals, self._offers.kinds, strict=True)
                    if position == pool
                )
                for pool in range(len(worths))
            ),
        )


def _rounded_up(value: float) -> int:
    return math.ceil(math.nextafter(value, math.inf)) if value > 0.0 else 0


class _Master:
    """Restricted master: fractions of covers for each workload on fractions of GPUs, at the least cost."""

    def __init__(self, instance: Instance, offers: Offers, threads: int) -> None:
        reset_threads()
        self._solver = new_highs(threads)
        self._workloads, self._kinds = len(instance.workloads), len(offers.kinds)
        self._column_keys: set[tuple[int, tuple[int, ...]]] = set()
        pools = range(len(instance.gpus))
        for lower in [1.0] * self._workloads + [0.0] * self._kinds:
            self._solver.addRow(lower, math.inf, 0, np.array([], np.int32), np.array([]))
        for pool in pools:
            gpu_count = instance.gpus[pool].count
            upper = math.inf if gpu_count is None else float(gpu_count)
            self._solver.addRow(-math.inf, upper, 0, np.array([], np.int32), np.array([]))
        first_pool = self._workloads + self._kinds
        for (pool, _), numbers_by_kind, price in zip(offers.layouts, offers.count, offers.price, strict=True):
            kinds_in_layout = np.flatnonzero(numbers_by_kind)
            self._column(
                float(price),
                [*(self._workloads + kinds_in_layout), first_pool + pool],
                [*numbers_by_kind[kinds_in_layout], 1],
            )
        # GPUs beyond a bounded pool are permitted at a price above the whole pool's, so a solution always exists.
        price_beyond_pool = 1000.0 * (1.0 + sum(pool.type.price_per_hour * (pool.count or 1) for pool in instance.gpus))
        for pool in pools:
            self._column(price_beyond_pool, [first_pool + pool], [-1])
        for workload, rates in enumerate(offers.rate_rps):
            # Start with a cover of each kind alone; without that cover, the kind would have a dual of zero at first.
            for kind in np.flatnonzero(rates):
                count = np.zeros(self._kinds, np.int64)
                count[kind] = math.ceil(instance.workloads[workload].rate_rps / rates[kind])
                self._add(workload, tuple(count.tolist()))

    def solve(self) -> tuple[float, Floats, Floats]:
        """Return the value, the dual of a MIG instance of each kind, and the dual of each workload."""
        self._solver.run()
        row_duals = np.array(self._solver.getSolution().row_dual)
        instance_duals = np.maximum(row_duals[self._workloads : self._workloads + self._kinds], 0.0)
        return float(self._solver.getInfo().objective_function_value), instance_duals, row_duals[: self._workloads]

    def add(self, covers: Sequence[MigCover], instance_duals: Floats, workload_duals: Floats) -> bool:
        """Add the new covers of negative reduced cost; return whether there are any."""
        added = False
        for workload, cover in enumerate(covers):
            if float(instance_duals @ np.array(cover.numbers)) < workload_duals[workload] - 1e-9:
                added |= self._add(workload, cover.numbers)
        return added

    def _add(self, workload: int, numbers: tuple[int, ...]) -> bool:
        if (workload, numbers) in self._column_keys:
            return False
        self._column_keys.add((workload, numbers))
        used_kinds = np.flatnonzero(numbers)
        self._column(0.0, [workload, *(self._workloads + used_kinds)], [1, *(-numbers[kind] for kind in used_kinds)])
        return True

    def _column(self, cost: float, rows: Sequence[int], values: Sequence[float]) -> None:
        row_indices = np.array(rows, dtype=np.int32)
        self._solver.addCol(cost, 0.0, math.inf, len(row_indices), row_indices, np.array(values, dtype=np.float64))

"""Lower bounds on the cost from duals of MIG instances.

Let every kind of MIG instance have a dual such that the duals of a layout never sum to more than the price of its GPU.
The GPUs of any plan then cost at least the duals of their MIG instances. A cover of a workload is a set of MIG
instances that serves it. So the cost is at least the sum, over the workloads, of the duals of their cheapest covers.
The best duals are those of a restricted master over fractional covers and layouts; covers are its generated columns.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from bench.api import Run
from formulations.highs import new_highs, reset_threads
from formulations.mig.offers import Offers
from instances import Instance
from instances.arrays import Floats
from instances.costs import next_cost

NODE_LIMIT = 20_000


class MigCover(NamedTuple):
    """Set of MIG instances that serves a workload, with the least sum of duals that was found.

    Attributes
    ----------
    least
        Lower bound on that sum for every cover: the sum of this one, unless the search was cut short.
    numbers
        Number of MIG instances of each kind.
    """

    least: int
    numbers: tuple[int, ...]


def cheapest_cover(price: Sequence[int], rate: Sequence[int], demand: int, node_limit: int = NODE_LIMIT) -> MigCover:
    """Return the cheapest integer cover of ``demand``, by depth-first search in exact arithmetic.

    Parameters
    ----------
    price, rate
        Dual and rate of one MIG instance of each kind. A kind of rate 0 serves nothing; at least one rate is positive.
    demand
        Positive demand, in the unit of the rates.
    node_limit
        Nodes after which the search stops; ``least`` is then that of the fractional optimum.
    """
    # By dual per request: no later kind serves the remaining demand for less than the next one does.
    order = sorted((k for k in range(len(rate)) if rate[k] > 0), key=lambda k: (Fraction(price[k], rate[k]), -rate[k]))
    least = _ceil(demand * price[order[0]], rate[order[0]])
    found = _ceil(demand, rate[order[0]])
    best, best_count = found * price[order[0]], [found]
    count: list[int] = []
    nodes = 0

    def search(left: int, paid: int) -> None:
        nonlocal best, best_count, nodes
        depth = len(count)
        kind = order[depth]
        most = _ceil(left, rate[kind])
        if paid + most * price[kind] < best:
            best, best_count = paid + most * price[kind], [*count, most]
        if depth + 1 == len(order):
            return
        following = order[depth + 1]
        for number in range(most - 1, -1, -1):
            nodes += 1
            rest, so_far = left - number * rate[kind], paid + number * price[kind]
            # Even fewer MIG instances of this kind, the cheapest per request, never lower the bound.
            if so_far + _ceil(rest * price[following], rate[following]) >= best or nodes > node_limit:
                return
            count.append(number)
            search(rest, so_far)
            count.pop()

    search(demand, 0)
    numbers = [0] * len(rate)
    for kind, number in zip(order, best_count, strict=False):
        numbers[kind] = number
    return MigCover(best if nodes <= node_limit else least, tuple(numbers))


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


ROUNDS = 200
_PER_REQUEST = 10**6
_PER_DOLLAR = 2**32
_SLACK = 3e-9  # above the judge's tolerance on each instance's rate and on their sum


def bounds(instance: Instance, offers: Offers, run: Run) -> Iterator[float]:
    """Yield increasing lower bounds on the cost, each valid by itself, until no duals can prove a higher one.

    A bound above the price of the whole pool proves that the pool is too small.
    """
    pricing = _Pricing(instance, offers)
    master = _Master(instance, offers, run.threads)
    best = -math.inf
    for _ in range(ROUNDS):
        value, worth, served = master.solve()
        bound, covers = pricing.bound(worth)
        if bound > best:
            best = bound
            yield best
        # No duals prove a bound above the master's value.
        if next_cost(best, instance) >= next_cost(value, instance) or run.remaining_s <= 0.0:
            return
        if not master.add(covers, worth, served):
            return


class _Pricing:
    """Bounds in integers: rates are rounded up, demands and GPU prices down, so that every bound holds exactly."""

    def __init__(self, instance: Instance, offers: Offers) -> None:
        self._offers = offers
        self._rates = [[_rounded_up(rate * _PER_REQUEST) for rate in row] for row in offers.rate_rps.tolist()]
        self._demands = [math.floor(w.rate_rps * (1.0 - _SLACK) * _PER_REQUEST) for w in instance.workloads]
        self._gpu_prices = [math.floor(pool.type.price_per_hour * _PER_DOLLAR) for pool in instance.gpus]
        self._available = [pool.count for pool in instance.gpus]

    def bound(self, worth: Floats) -> tuple[float, list[MigCover]]:
        """Return the bound from duals near ``worth``, and the cheapest cover of every workload at them."""
        prices = [max(0, math.floor(price * _PER_DOLLAR)) for price in worth.tolist()]
        total = 0
        for pool, gpu_price in enumerate(self._gpu_prices):
            most = max(
                sum(int(number) * price for number, price in zip(row, prices, strict=True))
                for (position, _), row in zip(self._offers.layouts, self._offers.count, strict=True)
                if position == pool
            )
            available = self._available[pool]
            if most <= gpu_price:
                continue
            if available is None:
                for kind, (position, _) in enumerate(self._offers.kinds):
                    if position == pool:
                        prices[kind] = prices[kind] * gpu_price // most
            else:  # the MIG instances of each available GPU may sum to that much more than its price
                total -= available * (most - gpu_price)
        covers = [
            cheapest_cover(prices, rates, demand) for rates, demand in zip(self._rates, self._demands, strict=True)
        ]
        total += sum(cover.least for cover in covers)
        return max(0.0, math.nextafter(total / _PER_DOLLAR, -math.inf)), covers


def _rounded_up(value: float) -> int:
    return math.ceil(math.nextafter(value, math.inf)) if value > 0.0 else 0


class _Master:
    """Restricted master: fractions of covers for each workload on fractions of GPUs, at least cost."""

    def __init__(self, instance: Instance, offers: Offers, threads: int) -> None:
        reset_threads()
        self._solver = new_highs(threads)
        self._workloads, self._kinds = len(instance.workloads), len(offers.kinds)
        self._known: set[tuple[int, tuple[int, ...]]] = set()
        pools = range(len(instance.gpus))
        for lower in [1.0] * self._workloads + [0.0] * self._kinds:
            self._solver.addRow(lower, math.inf, 0, np.array([], np.int32), np.array([]))
        for pool in pools:
            available = instance.gpus[pool].count
            upper = math.inf if available is None else float(available)
            self._solver.addRow(-math.inf, upper, 0, np.array([], np.int32), np.array([]))
        first_pool = self._workloads + self._kinds
        for (pool, _), row, price in zip(offers.layouts, offers.count, offers.price, strict=True):
            held = np.flatnonzero(row)
            self._column(float(price), [*(self._workloads + held), first_pool + pool], [*row[held], 1])
        # GPUs beyond a bounded pool are permitted at a price above that of the whole pool, so a solution always exists.
        beyond = 1000.0 * (1.0 + sum(pool.type.price_per_hour * (pool.count or 1) for pool in instance.gpus))
        for pool in pools:
            self._column(beyond, [first_pool + pool], [-1])
        for workload, rates in enumerate(offers.rate_rps):
            # Start with one cover of each kind alone; a kind without one would have a dual of zero at first.
            for kind in np.flatnonzero(rates):
                count = np.zeros(self._kinds, np.int64)
                count[kind] = math.ceil(instance.workloads[workload].rate_rps / rates[kind])
                self._add(workload, tuple(count.tolist()))

    def solve(self) -> tuple[float, Floats, Floats]:
        """Return the value, the dual of a MIG instance of each kind, and the dual of each workload."""
        self._solver.run()
        dual = np.array(self._solver.getSolution().row_dual)
        worth = np.maximum(dual[self._workloads : self._workloads + self._kinds], 0.0)
        return float(self._solver.getInfo().objective_function_value), worth, dual[: self._workloads]

    def add(self, covers: Sequence[MigCover], worth: Floats, served: Floats) -> bool:
        """Add the new covers of negative reduced cost; return whether there are any."""
        found = False
        for workload, cover in enumerate(covers):
            if float(worth @ np.array(cover.numbers)) < served[workload] - 1e-9:
                found |= self._add(workload, cover.numbers)
        return found

    def _add(self, workload: int, count: tuple[int, ...]) -> bool:
        if (workload, count) in self._known:
            return False
        self._known.add((workload, count))
        used = np.flatnonzero(count)
        self._column(0.0, [workload, *(self._workloads + used)], [1, *(-count[kind] for kind in used)])
        return True

    def _column(self, cost: float, rows: Sequence[int], values: Sequence[float]) -> None:
        index = np.array(rows, dtype=np.int32)
        self._solver.addCol(cost, 0.0, math.inf, len(index), index, np.array(values, dtype=np.float64))

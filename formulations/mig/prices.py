"""Lower bounds from prices: what the instances of a GPU are worth together, no GPU of the pool costs less.

Give every kind of instance a price such that no layout is worth more than its GPU costs. Whatever a plan looks like,
its GPUs then cost at least what its instances are worth, hence at least the sum over the workloads of their cheapest
covers. The best prices are the duals of a master that mixes covers and layouts in fractions; covers are generated
as the prices ask for them.
"""

import math
from collections.abc import Iterator, Sequence

import highspy
import numpy as np

from bench.api import Run
from formulations.mig.covers import MigCover, cheapest_cover
from formulations.mig.offers import Offers
from instances import Instance
from instances.arrays import Floats
from instances.costs import next_cost

ROUNDS = 200
_PER_REQUEST = 10**6
_PER_DOLLAR = 2**32
_SLACK = 3e-9  # above what the judge forgives on each instance's rate and on their sum


def bounds(instance: Instance, offers: Offers, run: Run) -> Iterator[float]:
    """Yield better and better lower bounds on the cost, each valid by itself, until prices prove no more.

    A bound above the price of the whole pool says that the pool is too small.
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
        # Prices cannot prove more than the master's value.
        if next_cost(best, instance) >= next_cost(value, instance) or run.remaining_s <= 0.0:
            return
        if not master.add(covers, worth, served):
            return


class _Pricing:
    """Bounds in whole numbers: rates rounded up, demands and GPU prices down, so that every bound holds exactly."""

    def __init__(self, instance: Instance, offers: Offers) -> None:
        self._offers = offers
        self._rates = [[_rounded_up(rate * _PER_REQUEST) for rate in row] for row in offers.rate_rps.tolist()]
        self._demands = [math.floor(w.rate_rps * (1.0 - _SLACK) * _PER_REQUEST) for w in instance.workloads]
        self._gpu_prices = [math.floor(pool.type.price_per_hour * _PER_DOLLAR) for pool in instance.gpus]
        self._available = [pool.count for pool in instance.gpus]

    def bound(self, worth: Floats) -> tuple[float, list[MigCover]]:
        """Return the bound that prices near ``worth`` prove, and the cheapest cover of every workload at them."""
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
            else:  # every GPU there is may be worth that much more than it costs
                total -= available * (most - gpu_price)
        covers = [
            cheapest_cover(prices, rates, demand) for rates, demand in zip(self._rates, self._demands, strict=True)
        ]
        total += sum(cover.least for cover in covers)
        return max(0.0, math.nextafter(total / _PER_DOLLAR, -math.inf)), covers


def _rounded_up(value: float) -> int:
    return math.ceil(math.nextafter(value, math.inf)) if value > 0.0 else 0


class _Master:
    """Fractions of covers for each workload on fractions of GPUs, at least cost."""

    def __init__(self, instance: Instance, offers: Offers, threads: int) -> None:

        # HiGHS's pool of threads outlives a solver, and refuses to solve with another number of them.
        highspy.Highs.resetGlobalScheduler(True)
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", threads)
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
        # GPUs beyond a bounded pool cost more than anything within: the master always has a solution.
        beyond = 1000.0 * (1.0 + sum(pool.type.price_per_hour * (pool.count or 1) for pool in instance.gpus))
        for pool in pools:
            self._column(beyond, [first_pool + pool], [-1])
        for workload, rates in enumerate(offers.rate_rps):
            # One cover of each kind alone: without them the others would be free of charge at first.
            for kind in np.flatnonzero(rates):
                count = np.zeros(self._kinds, np.int64)
                count[kind] = math.ceil(instance.workloads[workload].rate_rps / rates[kind])
                self._add(workload, tuple(count.tolist()))

    def solve(self) -> tuple[float, Floats, Floats]:
        """Return the value, the worth of an instance of each kind, and of serving each workload."""
        self._solver.run()
        dual = np.array(self._solver.getSolution().row_dual)
        worth = np.maximum(dual[self._workloads : self._workloads + self._kinds], 0.0)
        return float(self._solver.getInfo().objective_function_value), worth, dual[: self._workloads]

    def add(self, covers: Sequence[MigCover], worth: Floats, served: Floats) -> bool:
        """Add the covers that are cheaper than what serving their workload is worth; whether there were any."""
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

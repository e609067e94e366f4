"""Pricing on one GPU type: an upper bound on the worth of every content that a plan may give a GPU."""

import math
from collections.abc import Iterator

import numpy as np

from formulations.colgen.clock import now, spend_nodes
from formulations.colgen.demand import DemandOnGpu, demand_of
from formulations.colgen.restricted_master import Priced
from formulations.colgen.temporal.gpulet_positions import (
    SLOTS,
    GpuletPosition,
    Worth,
    adjacency,
    quick_bounds,
)
from formulations.colgen.temporal.turns import most_in_turns
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.one_gpu import Pattern, Resident
from instances.tables import Tables
from instances.view import View


@compiled
def _quick_bounds_everywhere(
    tables: Tables,
    demand: DemandOnGpu,
    positions: Floats,
    worth: Worth,
    value: Floats,
    limit: Floats,
    workload: Ints,
    rate_rps: Floats,
    throughput_rps: Floats,
) -> None:
    """Write the quick bounds of every gpulet position."""
    for p in range(len(positions)):
        row = positions[p]
        position = GpuletPosition(int(row[0]), row[1], int(row[2]), row[3], row[4], row[5])
        value[p], workload[p, 0], rate_rps[p, 0], throughput_rps[p], limit[p] = quick_bounds(
            tables, demand, position, worth
        )


@compiled
def _fill(units: Ints, value: Floats, share_units: int, most_gpulets: int, chosen: Ints) -> float:
    """Return the largest worth of at most ``most_gpulets`` gpulets on one GPU; write how often each share is chosen."""
    best = np.zeros((most_gpulets + 1, share_units + 1))
    last = np.full((most_gpulets + 1, share_units + 1), -1, dtype=np.int64)
    for n in range(1, most_gpulets + 1):
        for used_units in range(share_units + 1):
            best[n, used_units] = best[n - 1, used_units]
            for k in range(len(units)):
                if units[k] <= used_units and best[n - 1, used_units - units[k]] + value[k] > best[n, used_units]:
                    best[n, used_units], last[n, used_units] = best[n - 1, used_units - units[k]] + value[k], k
    used_units = share_units
    for n in range(most_gpulets, 0, -1):
        k = last[n, used_units]
        if k >= 0:
            chosen[k] += 1
            used_units -= units[k]
    return float(best[most_gpulets, share_units])


POSITION_NODES = 20
"""Work of the quick bounds of one gpulet, in nodes; see ``colgen.clock``."""

TURNS_NODES = 20
"""Work of bounding the turns of one gpulet, in nodes per workload."""


class TemporalPricer:
    """Pricing on one GPU type, under any SLO rule but ``p99`` and ``attainment``.

    A gpulet has up to ``slots`` slots, 1 or 3.
    """

    def __init__(self, view: View, pool: int = 0, slots: int = SLOTS) -> None:
        self.view, self.tables, self.pool, self.slots = view, view.tables, pool, slots
        self.demand = demand_of(view, np.arange(len(view.model)), np.ones(len(view.model)))
        self.adjacency = adjacency(self.tables, self.demand)
        self.rows = np.array(self.adjacency.positions, dtype=np.float64).reshape(-1, len(GpuletPosition._fields))
        self._fit_together = (self.adjacency.beside >= 0) & (self.adjacency.beside.T >= 0)

    def rate_alone_rps(self, workload: int, most_rps: Floats) -> float:
        """Return the highest rate at which a GPU serves one workload in a gpulet of its own, in requests per second."""
        any_rate = np.zeros(len(most_rps))
        worth = Worth(np.eye(1, len(most_rps), workload)[0], most_rps, any_rate, 0.0)
        positions = (self.adjacency.positions[p] for p in self.adjacency.alone)
        rates = (quick_bounds(self.tables, self.demand, position, worth)[0] for position in positions)
        return max(map(float, rates), default=0.0)

    def price(self, worth: Worth, exact_turns: bool = True, deadline: float = math.inf) -> Priced:
        """Bound the worth of a GPU from above, and return the patterns that attain the bounds.

        The rates in the patterns may be higher than a GPU can serve. Their batches are 1 and have no meaning.

        At first each gpulet is worth the larger of its best single workload and a quick upper limit on turns. As long
        as the best GPU uses quick limits, exact bounds replace them. The bound is valid before and after.

        Parameters
        ----------
        exact_turns
            Whether exact bounds on turns replace quick limits.
        deadline
            Value of ``clock.now()`` at which to stop.
        """
        bounds = PositionBounds(self, worth)
        while True:
            best_gpus = list(self._best_gpus(bounds.value))
            bound, positions = max(best_gpus, key=lambda gpu: gpu[0], default=(0.0, []))
            quick_positions = [p for p in set(positions) if bounds.has_quick_limit[p]]
            if not (exact_turns and quick_positions) or now() >= deadline:
                break
            for p in quick_positions:
                bounds.bound_turns(p)
        return Priced(float(bound), [self._relaxed(positions, bounds) for _, positions in best_gpus])

    def _best_gpus(self, value: Floats) -> Iterator[tuple[float, list[int]]]:
        """Yield worth and positions of the best GPU with one gpulet, with two, and in each crowd."""
        adjacency = self.adjacency
        if len(adjacency.alone):
            p = int(adjacency.alone[np.argmax(value[adjacency.alone])])
            yield float(value[p]), [p]
        if self._fit_together.any():
            beside = np.where(self._fit_together, value[adjacency.beside], -math.inf)
            i, j = divmod(int(np.argmax(beside + beside.T)), len(beside))
            yield float(beside[i, j] + beside[j, i]), [int(adjacency.beside[i, j]), int(adjacency.beside[j, i])]
        units = self.rows[adjacency.alone, 0].astype(np.int64)
        for crowd, most_gpulets in zip(adjacency.crowds, adjacency.most_in_crowd, strict=True):
            chosen = np.zeros(len(units), dtype=np.int64)
            worth = _fill(units, value[crowd], self.tables.share_units, int(most_gpulets), chosen)
            yield worth, np.repeat(crowd, chosen).tolist()

    def _relaxed(self, positions: list[int], bounds: "PositionBounds") -> Pattern:
        """Return the pattern of the gpulets at these positions with the slots that attain the bounds."""
        gpulets = []
        for p in positions:
            slots = zip(bounds.workload[p].tolist(), bounds.rate_rps[p].tolist(), strict=True)
            gpulets.append((int(self.rows[p, 0]), tuple(Resident(w, 1, rate) for w, rate in slots if w >= 0)))
        return Pattern(self.pool, tuple(gpulets), float(bounds.throughput_rps[positions].sum()))


class PositionBounds:
    """Upper bounds on the worth of the gpulets at all positions of a pricer; see ``TemporalPricer.price``.

    Attributes
    ----------
    value
        The bounds, shape (positions,).
    has_quick_limit
        Whether a bound is a quick limit on turns, shape (positions,).
    workload, rate_rps
        Slots that attain the bounds: workload (-1: none) and rate, shape (positions, 3); for a quick limit, the best
        single slot.
    throughput_rps
        Throughput of these slots, shape (positions,).
    """

    def __init__(self, pricer: TemporalPricer, worth: Worth) -> None:
        positions = len(pricer.rows)
        self.worth, self._pricer = worth, pricer
        self._single, self._turns_limit, self.throughput_rps = (
            np.zeros(positions),
            np.zeros(positions),
            np.zeros(positions),
        )
        self.workload = np.full((positions, SLOTS), -1, dtype=np.int64)
        self.rate_rps = np.zeros((positions, SLOTS))
        spend_nodes(POSITION_NODES * positions)
        _quick_bounds_everywhere(
            pricer.tables,
            pricer.demand,
            pricer.rows,
            worth,
            self._single,
            self._turns_limit,
            self.workload,
            self.rate_rps,
            self.throughput_rps,
        )
        if pricer.slots == 1:
            self._turns_limit[:] = 0.0
        self.has_quick_limit = self._turns_limit > self._single
        self.value = np.maximum(self._single, self._turns_limit)

    def bound_turns(self, position: int) -> None:
        """Replace a quick limit on turns by an exact bound."""
        if not self.has_quick_limit[position]:
            return
        spend_nodes(TURNS_NODES * len(self.worth.per_rps))
        pricer, single, turns_limit = self._pricer, self._single[position], self._turns_limit[position]
        turns = most_in_turns(
            pricer.tables,
            pricer.demand,
            pricer.adjacency.positions[position],
            self.worth.per_rps + self.worth.throughput,
            self.worth.most_rps,
            single,
            self.workload[position],
            self.rate_rps[position],
        )
        self.value[position], self.has_quick_limit[position] = min(turns_limit, turns), False
        if turns > single:
            self.rate_rps[position] *= min(1.0, turns_limit / turns)
            self.throughput_rps[position] = self.rate_rps[position].sum()

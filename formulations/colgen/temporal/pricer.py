"""Pricing on one GPU type: a relaxation over all contents that a plan may give a GPU."""

import math
from collections.abc import Iterator

import numpy as np

from formulations.colgen.clock import now, spend
from formulations.colgen.demand import DemandOnGpu, demand_of
from formulations.colgen.restricted_master import Priced
from formulations.colgen.temporal.gpulet_positions import (
    SLOTS,
    GpuletPosition,
    Worth,
    adjacency,
    first_look,
)
from formulations.colgen.temporal.turns import most_in_turns
from formulations.pattern import Pattern
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.one_gpu import Resident
from instances.tables import Tables
from instances.view import View


@compiled
def _look_everywhere(
    tables: Tables,
    asked: DemandOnGpu,
    positions: Floats,
    worth: Worth,
    value: Floats,
    limit: Floats,
    workload: Ints,
    rate_rps: Floats,
    steady_rps: Floats,
) -> None:
    """Write the first estimate of every gpulet position."""
    for p in range(len(positions)):
        row = positions[p]
        position = GpuletPosition(int(row[0]), row[1], int(row[2]), row[3], row[4], row[5])
        look = first_look(tables, asked, position, worth)
        value[p], workload[p, 0], rate_rps[p, 0], steady_rps[p], limit[p] = look


@compiled
def _fill(units: Ints, value: Floats, share_units: int, most: int, chosen: Ints) -> float:
    """Return the largest worth of at most ``most`` gpulets on one GPU; write how often each share is chosen."""
    best = np.zeros((most + 1, share_units + 1))
    last = np.full((most + 1, share_units + 1), -1, dtype=np.int64)
    for n in range(1, most + 1):
        for total in range(share_units + 1):
            best[n, total] = best[n - 1, total]
            for k in range(len(units)):
                if units[k] <= total and best[n - 1, total - units[k]] + value[k] > best[n, total]:
                    best[n, total], last[n, total] = best[n - 1, total - units[k]] + value[k], k
    total = share_units
    for n in range(most, 0, -1):
        k = last[n, total]
        if k >= 0:
            chosen[k] += 1
            total -= units[k]
    return float(best[most, share_units])


POSITION_NODES, TURNS_NODES = 20, 20
"""Work of the first estimate of a gpulet, and of bounding its turns for each workload; see ``colgen.clock``."""


class TemporalPricer:
    """Pricing on one GPU type, for an instance with an analytic rule; a gpulet has at most 1 slot, or 3."""

    def __init__(self, view: View, pool: int = 0, slots: int = SLOTS) -> None:
        self.view, self.tables, self.pool, self.slots = view, view.tables, pool, slots
        self.asked = demand_of(view, np.arange(len(view.model)), np.ones(len(view.model)))
        self.adjacency = adjacency(self.tables, self.asked)
        self.rows = np.array(self.adjacency.positions, dtype=np.float64).reshape(-1, len(GpuletPosition._fields))
        self._together = (self.adjacency.beside >= 0) & (self.adjacency.beside.T >= 0)

    def alone(self, workload: int, most_rps: Floats) -> float:
        """Return the highest rate at which a GPU serves one workload in a gpulet of its own, in requests per second."""
        none = np.zeros(len(most_rps))
        worth = Worth(np.eye(1, len(most_rps), workload)[0], most_rps, none, 0.0)
        positions = (self.adjacency.positions[p] for p in self.adjacency.alone)
        looks = (first_look(self.tables, self.asked, position, worth) for position in positions)
        return max((float(most) for most, *_ in looks), default=0.0)

    def price(self, worth: Worth, closely: bool = True, deadline: float = math.inf) -> Priced:
        """Bound the worth of a GPU; the slots of the patterns have relaxed rates, and batches of 1.

        At first each gpulet is worth the larger of its best single workload and a quick upper limit on turns. While the
        best GPU uses such limits, exact bounds on turns replace them there, unless the time is over. The bound is valid
        in both cases.

        Parameters
        ----------
        closely
            ``False`` to keep the quick limits.
        deadline
            Value of ``clock.now()`` at which to stop.
        """
        looks = Looks(self, worth)
        while True:
            fullest = list(self._fullest(looks.value))
            bound, parts = max(fullest, key=lambda gpu: gpu[0], default=(0.0, []))
            looked_at = [p for p in set(parts) if looks.unsure[p]]
            if not (closely and looked_at) or now() >= deadline:
                break
            for p in looked_at:
                looks.settle(p)
        return Priced(float(bound), [self._relaxed(parts, looks) for _, parts in fullest])

    def _fullest(self, value: Floats) -> Iterator[tuple[float, list[int]]]:
        """Yield the best GPU with one gpulet, with two, and with each larger number: worth and positions."""
        neighbours = self.adjacency
        if len(neighbours.alone):
            p = int(neighbours.alone[np.argmax(value[neighbours.alone])])
            yield float(value[p]), [p]
        if self._together.any():
            beside = np.where(self._together, value[neighbours.beside], -math.inf)
            i, j = divmod(int(np.argmax(beside + beside.T)), len(beside))
            yield float(beside[i, j] + beside[j, i]), [int(neighbours.beside[i, j]), int(neighbours.beside[j, i])]
        units = self.rows[neighbours.alone, 0].astype(np.int64)
        for crowd, most in zip(neighbours.crowd, neighbours.most_in_crowd, strict=True):
            chosen = np.zeros(len(units), dtype=np.int64)
            worth = _fill(units, value[crowd], self.tables.share_units, int(most), chosen)
            yield worth, np.repeat(crowd, chosen).tolist()

    def _relaxed(self, parts: list[int], looks: "Looks") -> Pattern:
        slots = zip(looks.workload[parts].tolist(), looks.rate_rps[parts].tolist(), strict=True)
        gpulets = (
            (int(self.rows[p, 0]), tuple(Resident(w, 1, rate) for w, rate in zip(*own, strict=True) if w >= 0))
            for p, own in zip(parts, slots, strict=True)
        )
        return Pattern(self.pool, tuple(gpulets), float(looks.steady_rps[parts].sum()))


class Looks:
    """Upper bounds on the worth of the gpulets at all positions of a pricer; see ``TemporalPricer.price``.

    Attributes
    ----------
    value
        The bounds, shape (positions,).
    unsure
        Positions whose bound is a quick limit on turns.
    workload, rate_rps
        Slots that attain the bounds: workload (-1: none) and rate, shape (positions, 3); for a quick limit, the best
        single slot.
    steady_rps
        Throughput of these slots, shape (positions,).
    """

    def __init__(self, pricer: TemporalPricer, worth: Worth) -> None:
        positions = len(pricer.rows)
        self.worth, self._pricer = worth, pricer
        self._alone, self._limit, self.steady_rps = np.zeros(positions), np.zeros(positions), np.zeros(positions)
        self.workload = np.full((positions, SLOTS), -1, dtype=np.int64)
        self.rate_rps = np.zeros((positions, SLOTS))
        spend(POSITION_NODES * positions)
        _look_everywhere(
            pricer.tables,
            pricer.asked,
            pricer.rows,
            worth,
            self._alone,
            self._limit,
            self.workload,
            self.rate_rps,
            self.steady_rps,
        )
        if pricer.slots == 1:
            self._limit[:] = 0.0
        self.unsure = self._limit > self._alone
        self.value = np.maximum(self._alone, self._limit)

    def settle(self, position: int) -> None:
        """Replace a quick limit on turns by an exact bound."""
        if not self.unsure[position]:
            return
        spend(TURNS_NODES * len(self.worth.per_rps))
        pricer, alone, limit = self._pricer, self._alone[position], self._limit[position]
        turns = most_in_turns(
            pricer.tables,
            pricer.asked,
            pricer.adjacency.positions[position],
            self.worth.per_rps + self.worth.throughput,
            self.worth.most_rps,
            alone,
            self.workload[position],
            self.rate_rps[position],
        )
        self.value[position], self.unsure[position] = min(limit, turns), False
        if turns > alone:
            self.rate_rps[position] *= min(1.0, limit / turns)
            self.steady_rps[position] = self.rate_rps[position].sum()

"""Pricing on one GPU type: a relaxation over all contents that a plan may give a GPU."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from formulations.colgen.clock import now, spend
from formulations.colgen.temporal.gpulet_positions import GpuletPosition, TypeDemand, adjacency, first_look
from formulations.colgen.temporal.turns import SLOTS, most_in_turns
from instances import SloRule
from instances.arrays import Floats, Ints
from instances.tables import Tables
from instances.view import View


@dataclass(frozen=True, slots=True)
class TemporalPriced:
    """Result of one pricing call.

    Attributes
    ----------
    bound
        Upper bound on the worth of every content.
    served_rps
        Contents of high worth: the rate at which each serves each workload, shape (workloads,) each.
    """

    bound: float
    served_rps: list[Floats]


def asked_of(view: View) -> TypeDemand:
    """Return the demands of the instance of ``view``."""
    batch = np.arange(view.tables.active_ms.shape[1], dtype=np.float64)
    longest_part = np.full(len(batch), 0.5)
    if view.instance.slo_rule is SloRule.ASSEMBLY:
        # The conditions SLO - 1000 (b - 1) / r >= t and 1000 b / r >= t have a common rate r up to this t.
        longest_part = batch / np.maximum(2.0 * batch - 1.0, 1.0)
    overlaps = view.instance.slo_rule is SloRule.HALF_SLO
    return TypeDemand(view.model, view.slo_ms, view.instance.latency_buffer, longest_part, overlaps)


@njit(cache=True)
def _position(row: Floats) -> GpuletPosition:
    return GpuletPosition(int(row[0]), row[1], int(row[2]), row[3], row[4], row[5])


@njit(cache=True)
def _look_everywhere(
    tables: Tables,
    asked: TypeDemand,
    positions: Floats,
    worth: Floats,
    most_rps: Floats,
    value: Floats,
    limit: Floats,
    workload: Ints,
    rate_rps: Floats,
) -> None:
    """Write the first estimate of every gpulet position."""
    for p in range(len(positions)):
        value[p], workload[p, 0], rate_rps[p, 0], limit[p] = first_look(
            tables, asked, _position(positions[p]), worth, most_rps
        )


@njit(cache=True)
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


POSITION_NODES, TURNS_NODES = 20, 3_000
"""Work of the first estimate of a gpulet, and of bounding its turns: see ``formulations.colgen.clock``."""


class TemporalPricer:
    """Pricing on one GPU type.

    Parameters
    ----------
    view
        The instance as seen from the GPU type; its rule is not ``p99``.
    """

    def __init__(self, view: View) -> None:
        self.tables = view.tables
        self.asked = asked_of(view)
        self.adjacency = adjacency(self.tables, self.asked)
        self._rows = np.array(self.adjacency.positions, dtype=np.float64).reshape(-1, len(GpuletPosition._fields))
        self._together = (self.adjacency.beside >= 0) & (self.adjacency.beside.T >= 0)

    def alone(self, workload: int, most_rps: Floats) -> float:
        """Return the highest rate at which a GPU serves one workload in a gpulet of its own, in requests per second."""
        worth = np.zeros(len(most_rps))
        worth[workload] = 1.0
        positions = (self.adjacency.positions[p] for p in self.adjacency.alone)
        looks = (first_look(self.tables, self.asked, position, worth, most_rps) for position in positions)
        return max((float(look.worth) for look in looks), default=0.0)

    def price(
        self, worth: Floats, most_rps: Floats, closely: bool = True, deadline: float = math.inf
    ) -> TemporalPriced:
        """Bound the worth of a GPU.

        At first each gpulet counts as the larger of its best single workload and a quick upper limit on turns. If the
        best GPU uses such limits, they are replaced there by exact bounds on turns, until it uses none or the time is
        over. The bound is valid in both cases.

        Parameters
        ----------
        worth
            Worth of a unit of rate of each workload, shape (workloads,); workloads of worth <= 0 are left out.
        most_rps
            Largest rate of each workload that counts, shape (workloads,).
        closely
            ``False`` to keep the quick limits.
        deadline
            Value of ``clock.now()`` at which to stop.
        """
        positions = len(self._rows)
        value, limit = np.zeros(positions), np.zeros(positions)
        workload, rate_rps = np.full((positions, SLOTS), -1, dtype=np.int64), np.zeros((positions, SLOTS))
        problem = (self.tables, self.asked)
        spend(POSITION_NODES * len(self._rows))
        _look_everywhere(*problem, self._rows, worth, most_rps, value, limit, workload, rate_rps)
        unsure = limit > value
        alone, value = value, np.maximum(value, limit)
        while True:
            fullest = list(self._fullest(value))
            bound, parts = max(fullest, key=lambda each: each[0], default=(0.0, []))
            looked_at = [p for p in set(parts) if unsure[p]]
            if not (closely and looked_at) or now() >= deadline:
                break
            spend(TURNS_NODES * len(looked_at))
            for p in looked_at:
                position = self.adjacency.positions[p]
                turns = most_in_turns(*problem, position, worth, most_rps, alone[p], workload[p], rate_rps[p])
                value[p], unsure[p] = min(limit[p], turns), False
                if turns > limit[p]:
                    rate_rps[p] *= limit[p] / turns
        return TemporalPriced(
            float(bound), [self._served(parts, workload, rate_rps, len(worth)) for _, parts in fullest]
        )

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
        units = self._rows[neighbours.alone, 0].astype(np.int64)
        for crowd, most in zip(neighbours.crowd, neighbours.most_in_crowd, strict=True):
            chosen = np.zeros(len(units), dtype=np.int64)
            worth = _fill(units, value[crowd], self.tables.share_units, int(most), chosen)
            yield worth, np.repeat(crowd, chosen).tolist()

    def _served(self, parts: list[int], workload: Ints, rate_rps: Floats, workloads: int) -> Floats:
        served = np.zeros(workloads)
        who = workload[parts].ravel()
        np.add.at(served, who[who >= 0], rate_rps[parts].ravel()[who >= 0])
        return served

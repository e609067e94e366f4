"""Pricing for ``capacity``: a pattern is worth the throughput of its residents, spare shares spent.

Throughputs are ratios, so shares above the least ones matter. A choice is now (workload, share); inside a box of total
interference (``formulations.colgen.boxes``) its gain is the most throughput of any batch at the box's floors. As demands
grow with a workload's own throughput, every (share, batch) is filed under the smallest share whose best gain reaches
its own, which keeps the demand of a choice close to what its gain really costs. Boxes that could hold the best pattern
are halved until the bound is close to the best pattern known.
"""

import heapq
import math
import time
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.boxes import MARGIN, grid
from formulations.colgen.relaxation import relax_box
from instances.interference import gpu_time_ms
from instances.least_shares import least_share_alone, least_shares
from instances.spare_shares import spend_spare_shares
from instances.tables import Tables
from instances.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MULTIPLIER_ROUNDS = 8
SPARE_NODES = 2_000
"""Nodes of the search that spends spare shares when a pattern is valued."""


@njit(cache=True)
def capacity_takes(
    tables: Tables,
    model: Ints,
    budget_ms: Floats,
    box: Floats,
    units: NDArray[np.int16],
    gain: Floats,
    l2: Floats,
    power: Floats,
) -> None:
    """Write for each (workload, permitted share) the most throughput and the least demands in a box.

    Parameters
    ----------
    tables
        Of the GPU type.
    model
        Row of each workload's model, shape (workloads,).
    budget_ms
        Shape (workloads, largest batch + 1); -inf where the batch is impossible.
    box
        Residents, L2 floor and ceiling, power floor and ceiling.
    units, gain, l2, power
        Written, shape (workloads * permitted shares,); ``share_units + 1`` units where there is nothing to gain.
    """
    shares = len(tables.permitted)
    residents = int(box[0])
    l2_floor, power_floor = box[1], box[3]
    batches = budget_ms.shape[1]
    rates = np.empty((shares, batches))
    for w in range(len(model)):
        m = model[w]
        base = w * shares
        for j in range(shares):
            u = tables.permitted[j]
            best = gain[base + j - 1] if j > 0 else 0.0
            units[base + j], l2[base + j], power[base + j] = tables.share_units + 1, np.inf, np.inf
            for b in range(1, batches):
                rates[j, b] = 0.0
                if budget_ms[w, b] <= 0.0:
                    continue
                others_l2 = max(0.0, l2_floor - tables.l2_pct[m, b, u])
                time_ms = gpu_time_ms(tables, m, b, u, residents, others_l2, 0.0, power_floor)
                if time_ms <= budget_ms[w, b] * (1.0 + MARGIN):
                    rates[j, b] = 1000.0 * b / (time_ms + tables.exposed_ms[m, b])
                    best = max(best, rates[j, b])
            gain[base + j] = best
        for j in range(shares):
            for b in range(1, batches):
                if rates[j, b] > 0.0:
                    filed = base + np.searchsorted(gain[base : base + shares], rates[j, b])
                    units[filed] = tables.permitted[filed - base]
                    l2[filed] = min(l2[filed], tables.l2_pct[m, b, tables.permitted[j]])
                    power[filed] = min(power[filed], tables.power_w[m, b, tables.permitted[j]])


@njit(cache=True)
def value_pattern(
    tables: Tables, model: Ints, budget_ms: Floats, workload: Ints, batch: Ints, units: Ints, node_limit: int
) -> float:
    """Throughput of one GPU with these residents: batches by coordinate ascent, spare shares spent for each.

    Parameters
    ----------
    tables, model, budget_ms
        See ``capacity_takes``.
    workload
        The residents, shape (residents,).
    batch
        Where to start; overwritten with the best found.
    units
        Written.
    node_limit
        Of each spending of spare shares.

    Returns
    -------
    float
        Requests per second; -1 if the residents do not fit with the batches tried.
    """
    count = len(workload)
    rows = model[workload]
    budget = np.empty(count)
    trial_units = np.empty(count, dtype=np.int64)
    trial = batch.copy()
    best = -1.0
    improved = True
    first = True
    while improved:
        improved = False
        for i in range(-1 if first else 0, count):
            for step in (-1, 1, 2, 4):
                if i < 0 and step != 1:
                    continue
                trial[:] = batch
                if i >= 0:
                    trial[i] += step
                    if trial[i] < 1 or trial[i] >= budget_ms.shape[1]:
                        continue
                possible = True
                for j in range(count):
                    budget[j] = budget_ms[workload[j], trial[j]]
                    possible = possible and budget[j] > 0.0
                if not possible or not least_shares(tables, rows, trial, budget, trial_units):
                    continue
                value, _ = spend_spare_shares(tables, rows, trial, budget, trial_units, node_limit)
                if value > best * (1.0 + 1e-12):
                    best = value
                    batch[:] = trial
                    units[:] = trial_units
                    improved = i >= 0 or improved
        first = False
    return best


@dataclass(frozen=True, slots=True)
class Filled:
    """A GPU filled for throughput: workloads (ascending positions), batches, shares and their total throughput."""

    pool: int
    workload: tuple[int, ...]
    batch: tuple[int, ...]
    units: tuple[int, ...]
    throughput_rps: float


class CapacityPricer:
    """Pricing for ``capacity`` on one GPU type.

    Parameters
    ----------
    view
        The instance from the GPU type.
    pool
        Index of the type in the instance's pool.
    """

    def __init__(self, view: View, pool: int) -> None:
        self.view, self.pool, self.tables = view, pool, view.tables
        workloads, top = len(view.model), view.tables.transfer_ms.shape[1] - 1
        self.budget_ms = np.full((workloads, top + 1), -np.inf)
        batches = np.arange(1, top + 1)
        self.budget_ms[:, 1:] = view.budget_ms(np.arange(workloads)[:, None], batches[None, :])
        self.budget_ms[np.isnan(self.budget_ms)] = -np.inf
        choices = workloads * len(self.tables.permitted)
        self.first = np.arange(workloads + 1, dtype=np.int64) * len(self.tables.permitted)
        self._units = np.empty(choices, dtype=np.int16)
        self._gain, self._l2, self._power, self._worth = (np.empty(choices) for _ in range(4))
        self._usable = np.empty(choices, dtype=np.bool_)
        self._table = np.empty((workloads + 1, self.tables.share_units + 1, self.tables.share_units + 1))
        self.examined = 0
        self._values: dict[tuple[int, ...], Filled | None] = {}

    def least_units(self) -> Ints:
        """Least share of each workload alone over all batches; one more than there is where none is enough."""
        least = np.full(len(self.first) - 1, self.tables.share_units + 1)
        for w, budgets in enumerate(self.budget_ms):
            for b in np.flatnonzero(budgets > 0.0):
                share = least_share_alone(self.tables, self.view.model[w], int(b), float(budgets[b]))
                least[w] = min(least[w], share)
        return least

    def fill(self, workloads: tuple[int, ...]) -> Filled | None:
        """Value a set of workloads (ascending) on one GPU; ``None`` if no batches were found that fit."""
        if workloads not in self._values:
            self._values[workloads] = self._fill(workloads)
        return self._values[workloads]

    def _fill(self, workloads: tuple[int, ...]) -> Filled | None:
        index = np.array(workloads, dtype=np.int64)
        best: Filled | None = None
        for batch in self._starts(index):
            units = np.zeros(len(index), dtype=np.int64)
            value = value_pattern(self.tables, self.view.model, self.budget_ms, index, batch, units, SPARE_NODES)
            if value > 0.0 and (best is None or value > best.throughput_rps):
                best = Filled(self.pool, workloads, tuple(batch.tolist()), tuple(units.tolist()), float(value))
        return best

    def _starts(self, index: Ints) -> list[Ints]:
        """Batches to start from: the largest budget, the most throughput per share, and half of that."""
        roomy = np.array([int(np.argmax(self.budget_ms[w])) for w in index])
        return [roomy, np.maximum(1, roomy // 2), np.maximum(1, roomy - 1)]

    def price(
        self, charge: Floats, threshold: float, precision: float, box_limit: int, remaining_s: float
    ) -> tuple[float, list[Filled]]:
        """Look for GPUs whose throughput exceeds the charges of their residents by more than ``threshold``.

        Parameters
        ----------
        charge
            Of each workload, requests per second.
        threshold
            See above.
        precision
            Boxes are halved until the bound is within this of the best pattern found or the threshold.
        box_limit
            Boxes examined at most.
        remaining_s
            Time left.

        Returns
        -------
        bound : float
            No pattern is worth more.
        patterns : list of Filled
            Worth more than the threshold.
        """
        deadline = time.monotonic() + remaining_s
        found: dict[tuple[int, ...], Filled] = {}
        best = threshold
        heap: list[tuple[float, int, tuple[float, ...], Floats]] = []
        serial = 0
        l2_edges, power_edges = grid(self.tables)
        coarse_l2 = [l2_edges[0], *l2_edges[2::3], math.inf] if len(l2_edges) > 3 else l2_edges
        coarse_power = [*power_edges[:2], *power_edges[4::3], math.inf] if len(power_edges) > 3 else power_edges
        examined = 0
        for residents in range(1, self.tables.share_units + 1):
            any_open = False
            for l2 in zip(coarse_l2, coarse_l2[1:], strict=False):
                for power in zip(coarse_power, coarse_power[1:], strict=False):
                    if l2[0] < l2[1] and power[0] < power[1]:
                        box = (float(residents), *l2, *power)
                        bound, chosen, multipliers = self._relax(box, charge, best, np.zeros(2))
                        examined += 1
                        if bound > -math.inf:
                            any_open = True
                        if bound > best:
                            best = self._try(chosen, charge, best, threshold, found)
                            heapq.heappush(heap, (-bound, serial, box, multipliers))
                            serial += 1
            if not any_open:
                break
        while heap and -heap[0][0] > best + precision and examined < box_limit and time.monotonic() < deadline:
            _, _, box, multipliers = heapq.heappop(heap)
            for part in _halves(box):
                bound, chosen, own = self._relax(part, charge, best, multipliers.copy())
                examined += 1
                if bound > best:
                    best = self._try(chosen, charge, best, threshold, found)
                    heapq.heappush(heap, (-bound, serial, part, own))
                    serial += 1
        bound = max([best, *(-entry[0] for entry in heap[:1])])
        self.examined = examined
        return bound, list(found.values())

    def _relax(
        self, box: tuple[float, ...], charge: Floats, threshold: float, multipliers: Floats
    ) -> tuple[float, Ints, Floats]:
        row = np.array(box)
        capacity_takes(
            self.tables, self.view.model, self.budget_ms, row, self._units, self._gain, self._l2, self._power
        )
        profit = self._gain - np.repeat(charge, len(self.tables.permitted))
        chosen = np.full(int(box[0]), -1, dtype=np.int64)
        bound, _, _ = relax_box(
            self.first,
            row,
            self.tables.share_units,
            self._units,
            self._l2,
            self._power,
            profit,
            threshold,
            multipliers,
            MULTIPLIER_ROUNDS,
            self._worth,
            self._usable,
            self._table,
            chosen,
        )
        return bound, chosen, multipliers

    def _try(
        self, chosen: Ints, charge: Floats, best: float, threshold: float, found: dict[tuple[int, ...], Filled]
    ) -> float:
        """Value the workloads of a relaxed solution; return the best worth so far."""
        if chosen[0] < 0:
            return best
        workloads = tuple(sorted(int(k) // len(self.tables.permitted) for k in chosen))
        filled = self.fill(workloads)
        if filled is None:
            return best
        worth = filled.throughput_rps - float(charge[list(workloads)].sum())
        if worth > threshold:
            found[workloads] = filled
        return max(best, worth)


def _halves(box: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Cut a box in two along the axis that is wider, an open end at twice its start."""
    residents, l2_low, l2_high, power_low, power_high = box
    l2_cut = (l2_low + l2_high) / 2.0 if math.isfinite(l2_high) else 2.0 * l2_low + 10.0
    power_cut = (power_low + power_high) / 2.0 if math.isfinite(power_high) else 2.0 * power_low + 50.0
    if (l2_cut - l2_low) / 10.0 >= (power_cut - power_low) / 25.0:
        return [(residents, l2_low, l2_cut, power_low, power_high), (residents, l2_cut, l2_high, power_low, power_high)]
    return [
        (residents, l2_low, l2_high, power_low, power_cut),
        (residents, l2_low, l2_high, power_cut, power_high),
    ]

"""Pricing for ``capacity`` on one GPU type: GPUs filled for throughput, less what their residents are charged."""

import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.boxes import MARGIN, grid
from formulations.colgen.capacity.search import SPARE_NODES, FilledFound, search_capacity_box
from formulations.colgen.capacity.takes import CapacityTakes, capacity_takes
from formulations.colgen.capacity.value import can_fit, value_pattern
from instances.least_shares import least_share_alone
from instances.tables import Tables
from instances.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


BOXES_PER_CALL = 16
"""Boxes searched between two looks at the clock."""


@njit(cache=True)
def _search_boxes(
    tables: Tables,
    model: Ints,
    budget_ms: Floats,
    charge: Floats,
    takes: CapacityTakes,
    order: Ints,
    threshold: float,
    multipliers: Floats,
    certify: bool,
    node_limit: int,
    pattern_limit: int,
    buffers: tuple[Floats, Floats, NDArray[np.bool_], Floats],
    found: FilledFound,
    bounds: Floats,
) -> int:
    total_nodes = 0
    for i in order:
        bounds[i], nodes = search_capacity_box(
            tables,
            model,
            budget_ms,
            charge,
            takes.box[i],
            takes.units[i],
            takes.gain[i],
            takes.l2[i],
            takes.power[i],
            threshold,
            multipliers[i],
            certify,
            node_limit,
            pattern_limit,
            buffers[0],
            buffers[1],
            buffers[2],
            buffers[3],
            found,
        )
        total_nodes += nodes
        if found.stored[0] >= len(found.value):
            break
    return total_nodes


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
        self.takes = self._reachable_takes()
        choices, units = self.takes.units.shape[1], self.tables.share_units
        self.most_residents = int(self.takes.box[:, 0].max()) if len(self.takes.box) else 0
        self._buffers = (
            np.empty(choices),
            np.empty(choices),
            np.empty(choices, dtype=np.bool_),
            np.empty((workloads + 1, self.most_residents + 1, units + 1)),
        )
        self._multipliers = np.zeros((len(self.takes.box), 2))
        self._heat = np.zeros(len(self.takes.box))
        self._values: dict[tuple[int, ...], Filled | None] = {}

    def _reachable_takes(self) -> CapacityTakes:
        """Return what every (workload, share) gains and takes in every box that can be reached."""
        shares, workloads = len(self.tables.permitted), len(self.view.model)
        l2_edges, power_edges = grid(self.tables)
        rows: list[tuple[tuple[float, ...], NDArray[np.int16], Floats, Floats, Floats]] = []
        for residents in range(1, min(workloads, self.tables.share_units) + 1):
            before = len(rows)
            for l2_range in pairwise(l2_edges):
                for power_range in pairwise(power_edges):
                    box = (float(residents), *l2_range, *power_range)
                    units = np.empty(workloads * shares, dtype=np.int16)
                    gain, l2, power = (np.empty(workloads * shares) for _ in range(3))
                    capacity_takes(self.tables, self.view.model, self.budget_ms, np.array(box), units, gain, l2, power)
                    least_units, least_l2, least_power = (
                        np.sort(each.reshape(workloads, shares).min(axis=1))[:residents].sum()
                        for each in (units, l2, power)
                    )
                    if (
                        least_units <= self.tables.share_units
                        and least_l2 <= box[2] * (1.0 + MARGIN)
                        and least_power <= box[4] * (1.0 + MARGIN)
                    ):
                        rows.append((box, units, gain, l2, power))
            if len(rows) == before:
                break
        return CapacityTakes(
            np.array([row[0] for row in rows], dtype=np.float64).reshape(len(rows), 5),
            np.array([row[1] for row in rows], dtype=np.int16).reshape(len(rows), workloads * shares),
            *(np.array([row[i] for row in rows]).reshape(len(rows), workloads * shares) for i in (2, 3, 4)),
        )

    def least_units(self) -> Ints:
        """Least share of each workload alone over all batches; one more than there is where none is enough."""
        least = np.full(len(self.view.model), self.tables.share_units + 1)
        for w, budgets in enumerate(self.budget_ms):
            for b in np.flatnonzero(budgets > 0.0):
                share = least_share_alone(self.tables, self.view.model[w], int(b), float(budgets[b]))
                least[w] = min(least[w], share)
        return least

    def fill(self, workloads: tuple[int, ...]) -> Filled | None:
        """Value a set of workloads (ascending) on one GPU; ``None`` if no batches were found that fit."""
        if workloads not in self._values:
            index = np.array(workloads, dtype=np.int64)
            batch, units = np.ones_like(index), np.zeros_like(index)
            value = -1.0
            if can_fit(self.tables, self.view.model, self.budget_ms, index, batch):
                value = value_pattern(self.tables, self.view.model, self.budget_ms, index, batch, units, SPARE_NODES)
            self._values[workloads] = (
                Filled(self.pool, workloads, tuple(batch.tolist()), tuple(units.tolist()), float(value))
                if value > 0.0
                else None
            )
        return self._values[workloads]

    def price(
        self,
        charge: Floats,
        threshold: float,
        certify: bool,
        node_limit: int,
        deadline: float,
        pattern_limit: int = 10,
        stop_after: int = 300,
    ) -> tuple[float, list[Filled], int]:
        """Look for GPUs whose throughput exceeds the charges of their residents by more than ``threshold``.

        Parameters
        ----------
        charge
            Of each workload, requests per second.
        threshold, node_limit, pattern_limit, stop_after
            See ``Pricer.price``.
        deadline
            ``time.monotonic()`` value at which the boxes left are left out.
        certify
            Whether sets that are no gain are also bounded: slower, for the last calls.

        Returns
        -------
        bound : float
            No filled GPU is worth more.
        filled : list of Filled
            Worth more than the threshold.
        nodes : int
            Visited.
        """
        most = max(self.most_residents, 1)
        found = FilledFound(
            np.zeros(1, dtype=np.int64),
            np.zeros(stop_after, dtype=np.int64),
            np.zeros((stop_after, most), dtype=np.int64),
            np.zeros((stop_after, most), dtype=np.int64),
            np.zeros((stop_after, most), dtype=np.int64),
            np.zeros(stop_after),
        )
        bounds = np.full(len(self.takes.box), np.inf)
        order = np.argsort(-self._heat, kind="stable")
        nodes = 0
        for part in np.array_split(order, max(1, len(order) // BOXES_PER_CALL)):
            if time.monotonic() >= deadline or found.stored[0] >= stop_after:
                break
            nodes += _search_boxes(
                self.tables,
                self.view.model,
                self.budget_ms,
                charge,
                self.takes,
                part,
                threshold,
                self._multipliers,
                certify,
                node_limit,
                pattern_limit,
                self._buffers,
                found,
                bounds,
            )
        self._heat = np.where(np.isfinite(bounds), bounds - threshold, self._heat)
        filled = []
        for row in range(int(found.stored[0])):
            size = int(found.size[row])
            filled.append(
                Filled(
                    self.pool,
                    tuple(found.workload[row, :size].tolist()),
                    tuple(found.batch[row, :size].tolist()),
                    tuple(found.units[row, :size].tolist()),
                    float(found.value[row]),
                )
            )
        worth = [f.throughput_rps - float(charge[list(f.workload)].sum()) for f in filled]
        bound = max([float(bounds.max()), *worth]) if len(bounds) else threshold
        return bound, filled, int(nodes)

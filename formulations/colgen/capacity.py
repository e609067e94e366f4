"""Pricing for ``capacity``: a pattern is worth the throughput of its residents, spare shares spent.

Throughputs are ratios, so shares above the least ones matter. A choice is now (workload, share); inside a box of total
interference (``formulations.colgen.boxes``) its gain is the most throughput of any batch at the box's floors. As demands
grow with a workload's own throughput, every (share, batch) is filed under the smallest share whose best gain reaches
its own, which keeps the demand of a choice close to what its gain really costs. Boxes that the bound does not close are
searched over sets of workloads; a set that survives is valued by the one-GPU kernels, and bounded by halving its box
until it is known not to be worth more.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.boxes import MARGIN, grid, least_share
from formulations.colgen.relaxation import relax_box
from instances.interference import gpu_time_ms
from instances.least_shares import least_share_alone, least_shares
from instances.spare_shares import spend_spare_shares
from instances.tables import Tables
from instances.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MULTIPLIER_ROUNDS = 10
SET_BOXES = 48
"""Boxes into which one set's box is halved at most before its bound is left as it is."""

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


class CapacityTakes(NamedTuple):
    """What each (workload, permitted share) gains and takes in each box; see ``capacity_takes``.

    Attributes
    ----------
    box
        Shape (boxes, 5).
    units, gain, l2, power
        Shape (boxes, workloads * permitted shares).
    """

    box: Floats
    units: NDArray[np.int16]
    gain: Floats
    l2: Floats
    power: Floats


class FilledFound(NamedTuple):
    """Filled GPUs found, a row each: see ``Filled``; ``stored`` is how many, shape (1,)."""

    stored: Ints
    size: Ints
    workload: Ints
    batch: Ints
    units: Ints
    value: Floats


@njit(cache=True)
def set_bound(
    tables: Tables, model: Ints, budget_ms: Floats, members: Ints, charge: float, box: Floats, threshold: float
) -> float:
    """Bound the worth of one set of workloads in a box by halving the box, until at most ``threshold``.

    Parameters
    ----------
    tables, model, budget_ms
        See ``capacity_takes``.
    members
        The set, shape (residents,).
    charge
        Sum of their charges.
    box, threshold
        Where, and the bound that is good enough.
    """
    count, shares = len(members), len(tables.permitted)
    rows, budgets = model[members], budget_ms[members]
    first = np.arange(count + 1) * shares
    size = count * shares
    units = np.empty(size, dtype=np.int16)
    gain, l2, power, worth = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    usable = np.empty(size, dtype=np.bool_)
    table = np.empty((count + 1, count + 1, tables.share_units + 1))
    chosen = np.empty(count, dtype=np.int64)
    waiting = np.empty((SET_BOXES + 2, 5))
    waiting[0] = box
    waiting_bound = np.full(SET_BOXES + 2, np.inf)
    alive = 1
    for step in range(SET_BOXES):
        worst = int(np.argmax(waiting_bound[:alive]))
        if waiting_bound[worst] <= threshold + charge or alive == 0:
            break
        here = waiting[worst].copy()
        alive -= 1
        waiting[worst], waiting_bound[worst] = waiting[alive], waiting_bound[alive]
        for half in range(1 if step == 0 else 2):
            part = here.copy()
            if step > 0:
                _halve(part, half)
            capacity_takes(tables, rows, budgets, part, units, gain, l2, power)
            most_l2, most_power = 0.0, 0.0
            for i in range(count):
                own_l2, own_power = 0.0, 0.0
                for k in range(first[i], first[i + 1]):
                    if units[k] <= tables.share_units:
                        u = units[k]
                        for b in range(1, budgets.shape[1]):
                            if budgets[i, b] > 0.0:
                                own_l2 = max(own_l2, tables.l2_pct[rows[i], b, u])
                                own_power = max(own_power, tables.power_w[rows[i], b, u])
                most_l2 += own_l2
                most_power += own_power
            if most_l2 * (1.0 + MARGIN) < part[1] or most_power * (1.0 + MARGIN) < part[3]:
                continue
            bound, _, _ = relax_box(
                first,
                part,
                tables.share_units,
                units,
                l2,
                power,
                gain,
                threshold + charge,
                np.zeros(2),
                MULTIPLIER_ROUNDS,
                worth,
                usable,
                table,
                chosen,
            )
            if bound > threshold + charge:
                waiting[alive], waiting_bound[alive] = part, bound
                alive += 1
        if alive == 0:
            break
    best = threshold
    for i in range(alive):
        best = max(best, waiting_bound[i] - charge)
    return best


@njit(cache=True)
def _can_fit(tables: Tables, model: Ints, budget_ms: Floats, members: Ints) -> bool:
    """Whether the least that a set must take, whichever its batches, fits on one GPU: false is a proof."""
    l2_floor, power_floor = 0.0, 0.0
    while True:
        total, l2, power = 0, 0.0, 0.0
        for w in members:
            m = model[w]
            units, own_l2, own_power = tables.share_units + 1, np.inf, np.inf
            for b in range(1, budget_ms.shape[1]):
                if budget_ms[w, b] > 0.0:
                    limit_ms = budget_ms[w, b] * (1.0 + MARGIN)
                    u = least_share(tables, m, b, 1, limit_ms, len(members), l2_floor, power_floor)
                    if u <= tables.share_units:
                        units = min(units, u)
                        own_l2 = min(own_l2, tables.l2_pct[m, b, u])
                        own_power = min(own_power, tables.power_w[m, b, u])
            total += units
            l2 += own_l2
            power += own_power
            if total > tables.share_units:
                return False
        if l2 <= l2_floor * (1.0 + MARGIN) and power <= power_floor * (1.0 + MARGIN):
            return True
        l2_floor, power_floor = max(l2, l2_floor), max(power, power_floor)


@njit(cache=True)
def _halve(box: Floats, half: int) -> None:
    """Keep the lower (0) or upper (1) half of a box along its wider axis; an open end is cut at twice its start."""
    l2_cut = (box[1] + box[2]) / 2.0 if np.isfinite(box[2]) else 2.0 * box[1] + 10.0
    power_cut = (box[3] + box[4]) / 2.0 if np.isfinite(box[4]) else 2.0 * box[3] + 50.0
    if (l2_cut - box[1]) / 10.0 >= (power_cut - box[3]) / 25.0:
        box[2 - half] = l2_cut
    else:
        box[4 - half] = power_cut


@njit(cache=True)
def search_capacity_box(
    tables: Tables,
    model: Ints,
    budget_ms: Floats,
    charge: Floats,
    box: Floats,
    units: NDArray[np.int16],
    gain: Floats,
    l2: Floats,
    power: Floats,
    threshold: float,
    multipliers: Floats,
    certify: bool,
    node_limit: int,
    pattern_limit: int,
    profit: Floats,
    worth: Floats,
    usable: NDArray[np.bool_],
    table: Floats,
    found: FilledFound,
) -> tuple[float, int]:
    """Search one box for filled GPUs worth more than ``threshold`` after their residents' charges.

    Parameters are those of ``search_box``, with the rows of ``CapacityTakes``; ``certify`` asks for bounds on the sets
    that are valued, without which the bound of a searched box stays that of its relaxation.

    Returns
    -------
    bound : float
        No filled GPU of the box other than those found is worth more.
    nodes : int
        Visited.
    """
    shares, residents, capacity = len(tables.permitted), int(box[0]), tables.share_units
    workloads = len(model)
    first = np.arange(workloads + 1) * shares
    for w in range(workloads):
        for k in range(first[w], first[w + 1]):
            profit[k] = gain[k] - charge[w]
    chosen = np.full(residents, -1, dtype=np.int64)
    bound, l2_cap, power_cap = relax_box(
        first,
        box,
        capacity,
        units,
        l2,
        power,
        profit,
        threshold,
        multipliers,
        MULTIPLIER_ROUNDS,
        worth,
        usable,
        table,
        chosen,
    )
    if bound <= threshold:
        return threshold, 0
    offset = multipliers[0] * l2_cap + multipliers[1] * power_cap
    least_units = np.full(workloads, capacity + 1)
    most_worth = np.full(workloads, -np.inf)
    for w in range(workloads):
        for k in range(first[w], first[w + 1]):
            if usable[k]:
                least_units[w] = min(least_units[w], units[k])
                most_worth[w] = max(most_worth[w], worth[k])
    # The best worth of the residents so far within s units, for each depth.
    within = np.full((residents + 1, capacity + 1), -np.inf)
    within[0, :] = 0.0
    member = np.full(residents, -1, dtype=np.int64)
    batch = np.empty(residents, dtype=np.int64)
    filled_units = np.empty(residents, dtype=np.int64)
    last_row = min(found.stored[0] + pattern_limit, len(found.value))
    undecided = threshold
    nodes = 0
    depth = 0
    while depth >= 0:
        member[depth] += 1
        w, need = member[depth], residents - depth
        best = -np.inf
        if w < workloads:
            for s in range(capacity + 1):
                best = max(best, within[depth, s] + table[w, need, capacity - s])
        if best + offset <= threshold:
            depth -= 1
            continue
        # The same with this workload at its best worth and its least share, before its shares are gone through.
        best = -np.inf
        for s in range(capacity + 1 - least_units[w]):
            best = max(best, within[depth, s] + table[w + 1, need - 1, capacity - s - least_units[w]])
        if best + most_worth[w] + offset <= threshold:
            continue
        best = -np.inf
        within[depth + 1, :] = -np.inf
        for k in range(first[w], first[w + 1]):
            if usable[k]:
                u = units[k]
                for s in range(u, capacity + 1):
                    within[depth + 1, s] = max(within[depth + 1, s], within[depth, s - u] + worth[k])
        for s in range(capacity + 1):
            best = max(best, within[depth + 1, s] + table[w + 1, need - 1, capacity - s])
        if best + offset <= threshold:
            continue
        nodes += 1
        if nodes > node_limit:
            return max(undecided, bound), nodes
        if need > 1:
            depth += 1
            member[depth] = w
            continue
        if not _can_fit(tables, model, budget_ms, member):
            continue
        charged = 0.0
        for j in range(residents):
            charged += charge[member[j]]
            batch[j] = int(np.argmax(budget_ms[member[j]]))
        value = value_pattern(tables, model, budget_ms, member, batch, filled_units, SPARE_NODES)
        if value - charged > threshold:
            row = found.stored[0]
            found.size[row] = residents
            found.workload[row, :residents] = member
            found.batch[row, :residents], found.units[row, :residents] = batch, filled_units
            found.value[row] = value
            found.stored[0] = row + 1
            if row + 1 >= last_row:
                return max(undecided, bound), nodes
        if certify:
            floor = max(undecided, value - charged)
            undecided = max(undecided, set_bound(tables, model, budget_ms, member, charged, box, floor))
        else:
            undecided = bound
    return undecided, nodes


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
            for l2_range in zip(l2_edges, l2_edges[1:], strict=False):
                for power_range in zip(power_edges, power_edges[1:], strict=False):
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
            batch = np.array([int(np.argmax(self.budget_ms[w])) for w in workloads], dtype=np.int64)
            units = np.zeros(len(index), dtype=np.int64)
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
        nodes = _search_boxes(
            self.tables,
            self.view.model,
            self.budget_ms,
            charge,
            self.takes,
            order,
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

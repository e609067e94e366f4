"""Exhaustive search of one GPU type for a pattern worth more than a threshold, or a proof that there is none.

The patterns with N residents are covered by boxes of their total demand C (L2 and DRAM merged, see ``patterns``) and
their total power P; ``knapsack`` bounds the worth of the patterns in a box. A box whose bound exceeds the threshold is
searched depth first: the search leaves a partial pattern once the dynamic program says that no completion exceeds the
threshold, and tests every complete pattern (``one_gpu``). If that takes too many nodes, the box is cut in two; both
halves are searched.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from bench.certificate.boxes import BoxLimits, PatternBox, box_limits, whole_box
from bench.certificate.failures import GivenUpError, check_memory
from bench.certificate.knapsack import NOTHING, Alternatives, bound_box, by_units, check_worth, fill_table, undominated
from bench.certificate.one_gpu import alternatives_of_sets, alternatives_of_slots, exact_worth, fits
from bench.certificate.patterns import Candidates, Progress, ignore, merged_tables
from instances.arrays import Flags, Ints
from instances.compiled import compiled
from instances.tables import Tables

ROUNDS = 12
"""Steps towards good multipliers in each box."""

FIRST_NODES, FIRST_NODES_OF_SLOTS, NARROW_NODES = 3_000, 100_000, 100_000_000
"""Node limits of a box that can be cut, for alternatives of sets and for those of slots; and of a box too narrow."""

SET_NODES = 200_000
"""Nodes of the test of one set of residents."""

NARROW, NARROW_SLOTS = 2e-3, 1e-6
"""A box is not cut if no time grows by this fraction from its low to its high corner.

The first limit is for alternatives of sets, which stand for all options of a candidate; the second for those of slots.
"""

MOST_BOXES = 300_000
"""Boxes that wait before a search gives up."""

_ARRAYS = 16
"""Numbers per alternative in memory at a time."""

REFUTED, FOUND, LIMIT = 0, 1, 2


@compiled
def _seated(given: Alternatives, count: int, of_class: Ints, copies: Ints, residents: int, size: int) -> Alternatives:
    """Return the first ``count`` alternatives, each once for every seat of its class: ``size`` in total.

    A class has a seat for each of its workloads, but at most ``residents``.
    """
    source, seat, earlier = np.empty((3, size), dtype=np.int64)
    total, seats, at = 0, 0, 0
    while at < count:
        group, end = of_class[given.candidate[at]], at
        while end < count and of_class[given.candidate[end]] == group:
            end += 1
        for copy in range(min(copies[group], residents)):
            for j in range(at, end):
                source[total], seat[total], earlier[total] = j, seats, seats - 1 if copy else -1
                total += 1
            seats += 1
        at = end
    return Alternatives(
        seat,
        earlier,
        given.candidate[source],
        given.option[source],
        given.units[source],
        given.worth[source],
        given.l2[source],
        given.power[source],
    )


@compiled
def _allowed(chosen: Ints, of_class: Ints, apart: Flags, together: Ints) -> bool:
    """Return whether a branch allows a pattern.

    The pattern must hold no two classes that are ``apart``, and every group of ``together`` wholly or not at all.
    """
    for i in range(len(chosen)):
        a, mates = of_class[chosen[i]], 0
        for j in range(len(chosen)):
            b = of_class[chosen[j]]
            if apart[a, b]:
                return False
            mates += together[a] == together[b]
        if together[a] >= 0 and mates < (together == together[a]).sum():
            return False
    return True


@compiled
def search_box(
    tables: Tables,
    merged: Tables,
    candidates: Candidates,
    given: Alternatives,
    limits: BoxLimits,
    threshold: int,
    multipliers: Ints,
    node_limit: int,
    apart: Flags,
    together: Ints,
    table: Ints,
    best: bool,
    found: Ints,
) -> tuple[int, int, int]:
    """Search one box for a pattern worth more than ``threshold``; with ``best``, for the one that is worth most.

    Returns
    -------
    status : int
        ``REFUTED``: no pattern of the box is worth more than the returned threshold; ``FOUND``: the search ended at
        the first pattern that is worth more than the given one; ``LIMIT``: it took too many nodes.
    threshold, bound : int
        Worth of the last pattern found, whose candidates are in ``found``, or the given threshold if there is none; and
        bound on the box.
    """
    residents, capacity, slots = limits.residents, table.shape[2] - 1, given.option[0] >= 0
    charged, first = np.empty(len(given.units), dtype=np.int64), np.empty(len(given.units) + 1, dtype=np.int64)
    bound = bound_box(given, limits, threshold, multipliers, ROUNDS, charged, table, first)
    if bound <= threshold:
        return REFUTED, threshold, bound
    # Leave out the alternatives that are in no pattern worth more than the threshold.
    charged[:] = given.worth - multipliers[0] * given.l2 - multipliers[1] * given.power
    offset = multipliers[0] * limits.l2_most + multipliers[1] * limits.power_most
    order = by_units(given, limits, capacity)
    keep = np.empty(len(given.units), dtype=np.bool_)
    undominated(order, given.seat, charged, residents, keep)
    fill_table(np.flatnonzero(keep), given.seat, given.units, charged, residents, table, first)
    beside = table[0, residents - 1].copy()
    keep[:] = False
    for k in order:
        keep[k] = charged[k] + beside[capacity - given.units[k]] + offset > threshold
    kept = np.flatnonzero(keep)
    groups = fill_table(kept, given.seat, given.units, charged, residents, table, first)
    group = np.empty(len(kept), dtype=np.int64)
    for g in range(groups):
        group[first[g] : first[g + 1]] = g

    at = np.full(residents, -1, dtype=np.int64)
    worth, l2 = np.zeros(residents + 1, dtype=np.int64), np.zeros(residents + 1, dtype=np.int64)
    power, left = np.zeros(residents + 1, dtype=np.int64), np.full(residents + 1, capacity, dtype=np.int64)
    chosen, picked = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    nodes, depth = 0, 0
    while depth >= 0:
        at[depth] += 1
        j, need = at[depth], residents - depth
        # The values of the table do not increase from a seat to the next: no later seat has a better completion.
        if j >= len(kept) or worth[depth] + table[group[j], need, left[depth]] + offset <= threshold:
            depth -= 1
            continue
        k = kept[j]
        u = given.units[k]
        if (
            u > left[depth]
            or worth[depth] + charged[k] + table[group[j] + 1, need - 1, left[depth] - u] + offset <= threshold
            or l2[depth] + given.l2[k] > limits.l2_most
            or power[depth] + given.power[k] > limits.power_most
        ):
            continue
        # Identical workloads take their seats in order, with alternatives that do not decrease: each pattern once.
        if given.earlier[k] >= 0:
            before = kept[at[depth - 1]] if depth else -1
            if (
                before < 0
                or given.seat[before] != given.earlier[k]
                or (given.candidate[before], given.option[before], given.units[before])
                > (given.candidate[k], given.option[k], given.units[k])
            ):
                continue
        nodes += 1
        if nodes > node_limit:
            return LIMIT, threshold, bound
        chosen[depth], picked[depth] = given.candidate[k], k
        if need > 1:
            depth += 1
            at[depth] = first[group[j] + 1] - 1
            worth[depth] = worth[depth - 1] + charged[k]
            l2[depth], power[depth] = l2[depth - 1] + given.l2[k], power[depth - 1] + given.power[k]
            left[depth] = left[depth - 1] - u
            continue
        if not _allowed(chosen, candidates.of_class, apart, together):
            continue
        if slots:
            # The demands of slots are exact, so a pattern below a floor belongs to another box.
            if l2[depth] + given.l2[k] < limits.l2_least or power[depth] + given.power[k] < limits.power_least:
                continue
            fit, total = exact_worth(tables, candidates, chosen, given.option[picked], given.units[picked])
        else:
            total = given.worth[picked].sum()
            if total <= threshold:
                continue
            fit = fits(tables, merged, candidates, chosen, SET_NODES) != 0
        if fit and total > threshold:
            found[:], threshold = chosen, total
            if not best:
                return FOUND, threshold, bound
    return REFUTED, threshold, bound


@dataclass
class GpuSearch:
    """Search over the patterns of one GPU type.

    Parameters
    ----------
    copies
        Number of workloads of each class, shape (classes,).
    apart, together
        Pairs of classes that no pattern holds, shape (classes, classes); group of classes that a pattern holds wholly
        or not at all, -1 without a group, shape (classes,).
    """

    tables: Tables
    candidates: Candidates
    copies: Ints
    apart: Flags
    together: Ints

    def __post_init__(self) -> None:
        self.merged = merged_tables(self.tables)
        self.by_slots = bool(np.any(self.candidates.per_rps > 0.0))
        known, permitted = self.candidates, self.tables.permitted
        self._many = len(known.batch) * len(permitted) if self.by_slots else len(known.model)
        check_memory("the alternatives of a search", _ARRAYS, self._many)
        self._given = Alternatives(*np.empty((len(Alternatives._fields), self._many), dtype=np.int64))
        largest = float(np.abs(known.worth).max(initial=0))
        for k, m in enumerate(known.model):
            batch = known.batch[known.first[k] : known.first[k + 1]]
            least_ms = self.tables.active_ms[m, batch][:, permitted].min(axis=1) + self.tables.exposed_ms[m, batch]
            rate = 1000.0 * float((batch / least_ms).max(initial=0.0))
            largest = max(largest, abs(float(known.worth[k])) + float(known.per_rps[k]) * rate)
        check_worth(largest, self.tables.most_residents)

    def above(
        self,
        threshold: int,
        residents: range | None = None,
        best: bool = False,
        progress: Progress = ignore,
    ) -> tuple[int, list[int]]:
        """Return the worth of a pattern above ``threshold``, and its candidates; the threshold itself if there is none.

        Parameters
        ----------
        residents
            Numbers of residents to search; all by default.
        best
            Whether to return the pattern of the largest worth instead of the first one above ``threshold``.
        progress
            Function that is told the part of the search that was done since the last call.

        Raises
        ------
        GivenUpError
            If the search gives up.
        """
        pattern: list[int] = []
        numbers = count(2)
        places = int(np.minimum(self.copies[np.unique(self.candidates.of_class)], self.tables.most_residents).sum())
        numbers_of_residents = residents or range(1, min(self.tables.most_residents, places) + 1)
        for n in numbers_of_residents:
            # The box with the largest bound comes first: it holds the largest worths.
            first = self._first_boxes(n)
            part = 1.0 / (len(first) * len(numbers_of_residents))
            boxes = [(NOTHING, place, part, box, np.zeros(2, dtype=np.int64)) for place, box in enumerate(first)]
            while boxes and -boxes[0][0] > threshold:
                _, _, part, box, multipliers = heappop(boxes)
                status, worth, bound, found = self._search(box, multipliers, threshold, best)
                if worth > threshold:
                    threshold, pattern = worth, found
                if status == FOUND:
                    return threshold, pattern
                progress(0.0 if status == LIMIT else part)
                if len(boxes) > MOST_BOXES:
                    raise GivenUpError(f"more than {MOST_BOXES:,} boxes wait")
                if status == LIMIT:
                    for half in reversed(box.halves(int(np.argmax(box.growths(self.merged))))):
                        heappush(boxes, (-bound, next(numbers), part / 2.0, half, multipliers.copy()))
        return threshold, pattern

    def _first_boxes(self, residents: int) -> list[PatternBox]:
        """Return boxes that cover all totals of this many residents, cut where the frequency begins to fall."""
        whole = whole_box(self.merged, self.candidates.model, residents, residents)
        throttled_w = self.tables.max_power_w - self.tables.idle_power_w
        if 0.0 < throttled_w < whole.power_most:
            return [whole._replace(power_least=throttled_w), whole._replace(power_most=throttled_w)]
        return [whole]

    def _search(
        self, box: PatternBox, multipliers: Ints, threshold: int, best: bool
    ) -> tuple[int, int, int, list[int]]:
        residents, floors = box.most, (box.most, box.l2_least, box.power_least)
        if self.by_slots:
            many = alternatives_of_slots(self.tables, self.merged, self.candidates, *floors, self._given)
        else:
            many = alternatives_of_sets(self.merged, self.candidates, *floors, self._given)
        if many == 0:
            return REFUTED, threshold, NOTHING, []
        of_class = self.candidates.of_class
        size = int(np.minimum(self.copies[of_class[self._given.candidate[:many]]], residents).sum())
        check_memory("the alternatives of a search", _ARRAYS, self._many + size)
        given = _seated(self._given, many, of_class, self.copies, residents, size)
        if len(given.seat) == 0 or given.seat[-1] + 1 < residents:
            return REFUTED, threshold, NOTHING, []
        # A ceiling beyond the largest demands excludes nothing and is lowered.
        limits = box_limits(box)
        limits = limits._replace(
            l2_most=min(limits.l2_most, residents * int(given.l2.max())),
            power_most=min(limits.power_most, residents * int(given.power.max())),
        )
        shape = int(given.seat[-1]) + 2, residents + 1, self.tables.share_units + 1
        check_memory("the dynamic program of a search", *shape)
        table = np.empty(shape, dtype=np.int64)
        narrow = max(box.growths(self.merged)) < (NARROW_SLOTS if self.by_slots else NARROW)
        found = np.empty(residents, dtype=np.int64)
        status, worth, bound = search_box(
            self.tables,
            self.merged,
            self.candidates,
            given,
            limits,
            threshold,
            multipliers,
            NARROW_NODES if narrow else FIRST_NODES_OF_SLOTS if self.by_slots else FIRST_NODES,
            self.apart,
            self.together,
            table,
            best,
            found,
        )
        if status == LIMIT and narrow:
            raise GivenUpError(f"a box too narrow to be cut has more than {NARROW_NODES:,} nodes")
        return status, worth, bound, found.tolist()

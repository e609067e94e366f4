"""Exhaustive search of one GPU type for a pattern worth more than a threshold, or a proof that there is none.

Boxes of the total demand C (a weighted sum of L2 and DRAM, see ``patterns``) and the total power P cover the patterns
with N residents. ``knapsack`` bounds the worth of the patterns in a box. A box whose bound exceeds the threshold is
searched depth first. The search leaves a partial pattern once the dynamic program shows that no completion exceeds the
threshold, and it tests every complete pattern (``one_gpu``). If this search takes too many nodes, the box is cut in two
and both halves are searched.

Under ``capacity`` worth depends on throughput, and every batch and share of a candidate is an alternative of its own:
*alternatives of slots*. Otherwise a candidate has one alternative, with the least figures of all its options, and the
test of a complete pattern looks for options that fit: *alternatives of sets*.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from bench.certificate.boxes import BoxLimits, PatternBox, box_limits, whole_box
from bench.certificate.failures import GivenUpError, check_memory
from bench.certificate.knapsack import (
    NOTHING,
    UNBOUNDED,
    Alternatives,
    bound_box,
    by_units,
    check_worth,
    fill_table,
    undominated,
)
from bench.certificate.one_gpu import alternatives_of_sets, alternatives_of_slots, exact_worth, fits
from bench.certificate.patterns import Candidates, Progress, ignore, merged_tables
from instances.arrays import Flags, Ints
from instances.compiled import compiled
from instances.tables import Tables

ROUNDS = 12
"""Largest number of steps in each box that improve the multipliers of demand and power (``knapsack``)."""

FIRST_NODES = 3_000
"""Largest number of nodes of a search in a box that can be cut, with alternatives of sets."""

FIRST_NODES_OF_SLOTS = 100_000
"""Largest number of nodes of a search in a box that can be cut, with alternatives of slots."""

NARROW_NODES = 100_000_000
"""Largest number of nodes of a search in a box that is too narrow to be cut."""

SET_NODES = 200_000
"""Largest number of nodes of the test whether one set of candidates fits on a GPU (``fits``)."""

NARROW_GROWTH_OF_SETS = 2e-3
"""With alternatives of sets, a box is too narrow to be cut if all its growths (``PatternBox``) are below this."""

NARROW_GROWTH_OF_SLOTS = 1e-6
"""With alternatives of slots, a box is too narrow to be cut if all its growths are below this."""

MOST_BOXES = 300_000
"""Largest number of waiting boxes; a search with more gives up."""

_ARRAYS = 16
"""Number of arrays with one number per alternative that are in memory at a time."""

EXHAUSTED, FOUND, LIMIT = 0, 1, 2
"""Ways in which the search of a box ends; see ``search_box``."""


@compiled
def _seated(
    alternatives: Alternatives, count: int, of_class: Ints, copies: Ints, residents: int, size: int
) -> Alternatives:
    """Return the first ``count`` alternatives, each once for every seat of its class: ``size`` in total.

    A class has a seat for each of its workloads, but at most ``residents``.
    """
    sources, seat, earlier = np.empty((3, size), dtype=np.int64)
    written, seat_count, begin = 0, 0, 0
    while begin < count:
        class_, end = of_class[alternatives.candidate[begin]], begin
        while end < count and of_class[alternatives.candidate[end]] == class_:
            end += 1
        for copy in range(min(copies[class_], residents)):
            for j in range(begin, end):
                sources[written], seat[written], earlier[written] = j, seat_count, seat_count - 1 if copy else -1
                written += 1
            seat_count += 1
        begin = end
    return Alternatives(
        seat,
        earlier,
        alternatives.candidate[sources],
        alternatives.option[sources],
        alternatives.units[sources],
        alternatives.worth[sources],
        alternatives.demand[sources],
        alternatives.power[sources],
    )


class SearchedType(NamedTuple):
    """GPU type whose boxes are searched, with the conditions on pairs of classes; see ``GpuSearch``."""

    tables: Tables
    merged: Tables
    candidates: Candidates
    apart: Flags
    group_of: Ints


@compiled
def _allowed(chosen: Ints, searched: SearchedType) -> bool:
    """Return whether a pattern meets the conditions on pairs of classes.

    The pattern must contain no two classes that are ``apart``, and each group of ``group_of`` wholly or not at all.
    """
    of_class, apart, group_of = searched.candidates.of_class, searched.apart, searched.group_of
    for i in range(len(chosen)):
        first_class, group_size = of_class[chosen[i]], 0
        for j in range(len(chosen)):
            second_class = of_class[chosen[j]]
            if apart[first_class, second_class]:
                return False
            group_size += group_of[first_class] == group_of[second_class]
        if group_of[first_class] >= 0 and group_size < (group_of == group_of[first_class]).sum():
            return False
    return True


@compiled
def search_box(
    searched: SearchedType,
    alternatives: Alternatives,
    limits: BoxLimits,
    threshold: int,
    multipliers: Ints,
    node_limit: int,
    table: Ints,
    best: bool,
    best_candidates: Ints,
) -> tuple[int, int, int]:
    """Search one box for a pattern worth more than ``threshold``; with ``best``, for the one that is worth most.

    Returns
    -------
    status : int
        ``EXHAUSTED``: no pattern of the box is worth more than the returned threshold. ``FOUND``: the search ended at
        the first pattern that is worth more than the given threshold. ``LIMIT``: the search took too many nodes.
    threshold, bound : int
        Worth of the last pattern found, or the given threshold if none is found; and upper bound on the worths in the
        box. The candidates of the pattern are in ``best_candidates``.
    """
    residents, capacity, by_slots = limits.residents, table.shape[2] - 1, alternatives.option[0] >= 0
    # ``charged`` is the worth less the multipliers' charges for demand and power. ``table[g, n, s]`` is the largest sum
    # of ``charged`` over exactly n of the seats g, g + 1, ... within s units.
    charged = np.empty(len(alternatives.units), dtype=np.int64)
    first_row_of_seat = np.empty(len(alternatives.units) + 1, dtype=np.int64)
    bound = bound_box(alternatives, limits, threshold, multipliers, ROUNDS, charged, table, first_row_of_seat)
    if bound <= threshold:
        return EXHAUSTED, threshold, bound
    # Leave out the alternatives that are in no pattern worth more than the threshold.
    charged[:] = alternatives.worth - multipliers[0] * alternatives.demand - multipliers[1] * alternatives.power
    offset = multipliers[0] * limits.demand_ceiling + multipliers[1] * limits.power_ceiling
    order = by_units(alternatives, limits, capacity)
    keep = np.empty(len(alternatives.units), dtype=np.bool_)
    undominated(order, alternatives.seat, charged, residents, keep)
    fill_table(
        np.flatnonzero(keep), alternatives.seat, alternatives.units, charged, residents, table, first_row_of_seat
    )
    worth_of_others = table[0, residents - 1].copy()
    keep[:] = False
    for row in order:
        keep[row] = charged[row] + worth_of_others[capacity - alternatives.units[row]] + offset > threshold
    rows = np.flatnonzero(keep)
    seat_count = fill_table(rows, alternatives.seat, alternatives.units, charged, residents, table, first_row_of_seat)
    seat_number = np.empty(len(rows), dtype=np.int64)
    for number in range(seat_count):
        seat_number[first_row_of_seat[number] : first_row_of_seat[number + 1]] = number

    position = np.full(residents, -1, dtype=np.int64)
    worth, demand = np.zeros(residents + 1, dtype=np.int64), np.zeros(residents + 1, dtype=np.int64)
    power, free_units = np.zeros(residents + 1, dtype=np.int64), np.full(residents + 1, capacity, dtype=np.int64)
    chosen, chosen_rows = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    nodes, depth = 0, 0
    while depth >= 0:
        position[depth] += 1
        place, free_seats = position[depth], residents - depth
        # The values of the table do not increase from a seat to the next: no later seat has a better completion.
        if (
            place >= len(rows)
            or worth[depth] + table[seat_number[place], free_seats, free_units[depth]] + offset <= threshold
        ):
            depth -= 1
            continue
        row = rows[place]
        units = alternatives.units[row]
        if (
            units > free_units[depth]
            or worth[depth]
            + charged[row]
            + table[seat_number[place] + 1, free_seats - 1, free_units[depth] - units]
            + offset
            <= threshold
            or demand[depth] + alternatives.demand[row] > limits.demand_ceiling
            or power[depth] + alternatives.power[row] > limits.power_ceiling
        ):
            continue
        # Identical workloads take their seats in order, with alternatives that do not decrease: each pattern once.
        if alternatives.earlier[row] >= 0:
            previous = rows[position[depth - 1]] if depth else -1
            if (
                previous < 0
                or alternatives.seat[previous] != alternatives.earlier[row]
                or (alternatives.candidate[previous], alternatives.option[previous], alternatives.units[previous])
                > (alternatives.candidate[row], alternatives.option[row], alternatives.units[row])
            ):
                continue
        nodes += 1
        if nodes > node_limit:
            return LIMIT, threshold, bound
        chosen[depth], chosen_rows[depth] = alternatives.candidate[row], row
        if free_seats > 1:
            depth += 1
            position[depth] = first_row_of_seat[seat_number[place] + 1] - 1
            worth[depth] = worth[depth - 1] + charged[row]
            demand[depth] = demand[depth - 1] + alternatives.demand[row]
            power[depth] = power[depth - 1] + alternatives.power[row]
            free_units[depth] = free_units[depth - 1] - units
            continue
        if not _allowed(chosen, searched):
            continue
        if by_slots:
            # The demands of slots are exact, so a pattern below a floor belongs to another box.
            if (
                demand[depth] + alternatives.demand[row] < limits.demand_floor
                or power[depth] + alternatives.power[row] < limits.power_floor
            ):
                continue
            options_of_chosen, units_of_chosen = alternatives.option[chosen_rows], alternatives.units[chosen_rows]
            fits_gpu, pattern_worth = exact_worth(
                searched.tables, searched.candidates, chosen, options_of_chosen, units_of_chosen
            )
        else:
            pattern_worth = alternatives.worth[chosen_rows].sum()
            if pattern_worth <= threshold:
                continue
            fits_gpu = fits(searched.tables, searched.merged, searched.candidates, chosen, SET_NODES) != 0
        if fits_gpu and pattern_worth > threshold:
            best_candidates[:], threshold = chosen, pattern_worth
            if not best:
                return FOUND, threshold, bound
    return EXHAUSTED, threshold, bound


@dataclass
class GpuSearch:
    """Search over the patterns of one GPU type.

    Parameters
    ----------
    copies
        Number of workloads of each class, shape (classes,).
    apart
        Whether no pattern contains both classes, shape (classes, classes).
    group_of
        Group of each class, -1 without one, shape (classes,). A pattern contains a group wholly or not at all.
    """

    tables: Tables
    candidates: Candidates
    copies: Ints
    apart: Flags
    group_of: Ints

    def __post_init__(self) -> None:
        self.merged = merged_tables(self.tables)
        self.by_slots = bool(np.any(self.candidates.worth_per_rps > 0.0))
        candidates, permitted = self.candidates, self.tables.permitted
        self._most_alternatives = len(candidates.batch) * len(permitted) if self.by_slots else len(candidates.model)
        check_memory("the alternatives of a search", _ARRAYS, self._most_alternatives)
        self._buffer = Alternatives(*np.empty((len(Alternatives._fields), self._most_alternatives), dtype=np.int64))
        largest = float(np.abs(candidates.worth).max(initial=0))
        for candidate, model in enumerate(candidates.model):
            batch = candidates.batch[candidates.first_option[candidate] : candidates.first_option[candidate + 1]]
            least_ms = (
                self.tables.active_ms[model, batch][:, permitted].min(axis=1) + self.tables.exposed_ms[model, batch]
            )
            rate = 1000.0 * float((batch / least_ms).max(initial=0.0))
            largest = max(
                largest, abs(float(candidates.worth[candidate])) + float(candidates.worth_per_rps[candidate]) * rate
            )
        check_worth(largest, self.tables.most_residents)

    def above(
        self,
        threshold: int,
        residents: range | None = None,
        best: bool = False,
        progress: Progress = ignore,
    ) -> tuple[int, list[int]]:
        """Return the worth and the candidates of a pattern above ``threshold``; without one, the threshold and ``[]``.

        Parameters
        ----------
        residents
            Numbers of residents to search; all by default.
        best
            Whether to return the pattern of the largest worth instead of the first one above ``threshold``.
        progress
            Function of the fraction of the search that was done since the last call.

        Raises
        ------
        GivenUpError
            If the search gives up.
        """
        pattern: list[int] = []
        next_rank = count(2)  # ranks order boxes of equal bounds; the one or two first boxes have the ranks 0 and 1
        seats = int(np.minimum(self.copies[np.unique(self.candidates.of_class)], self.tables.most_residents).sum())
        resident_counts = residents or range(1, min(self.tables.most_residents, seats) + 1)
        for resident_count in resident_counts:
            # The box with the largest bound comes first, because it may contain the largest worths.
            first_boxes = self._first_boxes(resident_count)
            fraction = 1.0 / (len(first_boxes) * len(resident_counts))
            boxes = [
                (-UNBOUNDED, rank, fraction, box, np.zeros(2, dtype=np.int64)) for rank, box in enumerate(first_boxes)
            ]
            while boxes and -boxes[0][0] > threshold:
                _, _, fraction, box, multipliers = heappop(boxes)
                status, worth, bound, found_pattern = self._search(box, multipliers, threshold, best)
                if worth > threshold:
                    threshold, pattern = worth, found_pattern
                if status == FOUND:
                    return threshold, pattern
                progress(0.0 if status == LIMIT else fraction)
                if len(boxes) > MOST_BOXES:
                    raise GivenUpError(f"more than {MOST_BOXES:,} boxes wait")
                if status == LIMIT:
                    for half in reversed(box.halves(int(np.argmax(box.growths(self.merged))))):
                        heappush(boxes, (-bound, next(next_rank), fraction / 2.0, half, multipliers.copy()))
        return threshold, pattern

    def _first_boxes(self, residents: int) -> list[PatternBox]:
        """Return boxes that cover all patterns of this many residents, cut where the frequency begins to fall."""
        whole = whole_box(self.merged, self.candidates.model, residents, residents)
        throttled_above_w = self.tables.max_power_w - self.tables.idle_power_w
        if self.tables.throttle_per_w < 0.0 and 0.0 < throttled_above_w < whole.power_ceiling_w:
            return [whole._replace(power_floor_w=throttled_above_w), whole._replace(power_ceiling_w=throttled_above_w)]
        return [whole]

    def _search(
        self, box: PatternBox, multipliers: Ints, threshold: int, best: bool
    ) -> tuple[int, int, int, list[int]]:
        """Search one box; return the results of ``search_box``, and the candidates of the pattern found."""
        residents = box.most_residents
        residents_and_floors = residents, box.demand_floor_pct, box.power_floor_w
        if self.by_slots:
            alternative_count = alternatives_of_slots(
                self.tables, self.merged, self.candidates, *residents_and_floors, self._buffer
            )
        else:
            alternative_count = alternatives_of_sets(self.merged, self.candidates, *residents_and_floors, self._buffer)
        if alternative_count == 0:
            return EXHAUSTED, threshold, NOTHING, []
        of_class = self.candidates.of_class
        seated_count = int(
            np.minimum(self.copies[of_class[self._buffer.candidate[:alternative_count]]], residents).sum()
        )
        check_memory("the alternatives of a search", _ARRAYS, self._most_alternatives + seated_count)
        alternatives = _seated(self._buffer, alternative_count, of_class, self.copies, residents, seated_count)
        if len(alternatives.seat) == 0 or alternatives.seat[-1] + 1 < residents:
            return EXHAUSTED, threshold, NOTHING, []
        # A ceiling above the largest possible sum excludes nothing, so it is lowered to that sum.
        limits = box_limits(box)
        limits = limits._replace(
            demand_ceiling=min(limits.demand_ceiling, residents * int(alternatives.demand.max())),
            power_ceiling=min(limits.power_ceiling, residents * int(alternatives.power.max())),
        )
        shape = int(alternatives.seat[-1]) + 2, residents + 1, self.tables.share_units + 1
        check_memory("the dynamic program of a search", *shape)
        table = np.empty(shape, dtype=np.int64)
        narrow = max(box.growths(self.merged)) < (NARROW_GROWTH_OF_SLOTS if self.by_slots else NARROW_GROWTH_OF_SETS)
        first_nodes = FIRST_NODES_OF_SLOTS if self.by_slots else FIRST_NODES
        found_pattern = np.empty(residents, dtype=np.int64)
        status, worth, bound = search_box(
            SearchedType(self.tables, self.merged, self.candidates, self.apart, self.group_of),
            alternatives,
            limits,
            threshold,
            multipliers,
            NARROW_NODES if narrow else first_nodes,
            table,
            best,
            found_pattern,
        )
        if status == LIMIT and narrow:
            raise GivenUpError(f"a box too narrow to be cut has more than {NARROW_NODES:,} nodes")
        return status, worth, bound, found_pattern.tolist()

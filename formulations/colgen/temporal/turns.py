"""Upper bound on the worth of slots that take turns on one gpulet.

In a cycle of D ms every slot runs one batch, so it serves at most ``1000 b / D``. All batches together take at most D.
A request that just missed its batch still meets its SLO: ``D + t_inf <= SLO``.
"""

from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.temporal.gpulet_positions import SLOTS, GpuletPosition, all_times_ms
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables

CYCLE_STEP = 0.01
"""Width of a range of duty cycles, as a fraction of its lower end."""

RANGES_AT_ONCE = 8
"""Number of neighbouring ranges that are first bounded together."""

MULTIPLIER_ROUNDS = 6
"""Bisection steps for the multiplier on the cycle time."""


class SlotCandidates(NamedTuple):
    """Undominated candidates of one range of duty cycles: one or two slots of a workload, by rising time and worth.

    Attributes
    ----------
    first
        Candidates of workload w are ``first[w]`` to ``first[w + 1] - 1``, shape (workloads + 1,).
    time_ms, worth
        Least time and largest worth of each candidate.
    """

    first: Ints
    time_ms: Floats
    worth: Floats


class CycleBound(NamedTuple):
    """Upper bound on the worth of turns in a range of duty cycles, by a Lagrange multiplier on the cycle time.

    Attributes
    ----------
    per_ms, limit
        The multiplier, and the bound.
    first, second
        Largest reduced worth (worth minus multiplier times time) of a candidate, and the largest one of a candidate of
        another workload; at least 0.
    """

    per_ms: float
    limit: float
    first: float
    second: float


@compiled
def _write_candidates(
    demand: DemandOnGpu,
    times_ms: Floats,
    worth: Floats,
    most_rps: Floats,
    low_ms: float,
    high_ms: float,
    candidates: SlotCandidates,
) -> None:
    """Write the candidates that fit cycles from ``low_ms`` to ``high_ms``, without dominated ones."""
    count = 0
    for w in range(len(worth)):
        candidates.first[w] = count
        if worth[w] <= 0.0:
            continue
        m, most_worth = demand.model[w], worth[w] * most_rps[w]
        largest_fitting = 0
        for b in range(1, times_ms.shape[1]):
            time_ms = times_ms[m, b]
            if time_ms <= high_ms and low_ms + time_ms <= demand.slo_ms[w]:
                count = _insert(candidates, w, count, time_ms, worth[w] * min(most_rps[w], 1000.0 * b / low_ms))
                largest_fitting = b
        # Two slots of a workload in one cycle help only if one batch as large as both is impossible or takes longer.
        # Three slots of one workload are no better than the workload alone on the gpulet.
        for b in range(1, largest_fitting + 1):
            for second in range(b, largest_fitting + 1):
                time_ms = times_ms[m, b] + times_ms[m, second]
                if time_ms > high_ms:
                    break
                if b + second > largest_fitting or times_ms[m, b + second] > time_ms:
                    value = worth[w] * 1000.0 * (b + second) / low_ms
                    count = _insert(candidates, w, count, time_ms, min(most_worth, value))
                    if value >= most_worth:
                        break
    candidates.first[len(worth)] = count


@compiled
def _insert(candidates: SlotCandidates, workload: int, count: int, time_ms: float, value: float) -> int:
    """Insert a candidate in order unless it is dominated by one of its workload; return the new total number."""
    first = int(candidates.first[workload])
    position = first + int(np.searchsorted(candidates.time_ms[first:count], time_ms, side="right"))
    if position > first and candidates.worth[position - 1] >= value:
        return count
    end = position  # candidates from ``position`` to ``end`` take longer and are worth no more
    while end < count and candidates.worth[end] <= value:
        end += 1
    if position > first and candidates.time_ms[position - 1] == time_ms:
        position -= 1
    shift = position + 1 - end  # 1: later candidates move one place back; below 1: they move forward
    for k in range(count - 1, end - 1, -1) if shift > 0 else range(end, count):
        candidates.time_ms[k + shift], candidates.worth[k + shift] = candidates.time_ms[k], candidates.worth[k]
    candidates.time_ms[position], candidates.worth[position] = time_ms, value
    return count + shift


@compiled
def _cycle_bound(candidates: SlotCandidates, high_ms: float) -> CycleBound:
    """Bound the worth of turns in cycles of at most ``high_ms``."""
    low, high = 0.0, 0.0
    for k in range(candidates.first[-1]):
        high = max(high, candidates.worth[k] / candidates.time_ms[k])
    best = CycleBound(high, high * high_ms, 0.0, 0.0)
    for _ in range(MULTIPLIER_ROUNDS):
        per_ms = (low + high) / 2.0
        top, top_ms = np.zeros(SLOTS), np.zeros(SLOTS)
        for w in range(len(candidates.first) - 1):
            value, time_ms = 0.0, 0.0
            for k in range(candidates.first[w], candidates.first[w + 1]):
                if candidates.worth[k] - per_ms * candidates.time_ms[k] > value:
                    value, time_ms = candidates.worth[k] - per_ms * candidates.time_ms[k], candidates.time_ms[k]
            for s in range(SLOTS):
                if value > top[s]:
                    top[s], value = value, top[s]
                    top_ms[s], time_ms = time_ms, top_ms[s]
        if per_ms * high_ms + top.sum() < best.limit:
            best = CycleBound(per_ms, per_ms * high_ms + top.sum(), top[0], top[1])
        if top_ms.sum() > high_ms:
            low = per_ms
        else:
            high = per_ms
    return best


@compiled
def _best_three(
    candidates: SlotCandidates, high_ms: float, bound: CycleBound, least_worth: float, chosen: Ints
) -> float:
    """Write the best slots of up to three workloads that fit into ``high_ms`` and are worth more than ``least_worth``.

    Return their worth, or ``least_worth`` if there are none. Slots are worth at most the multiplier times the cycle
    time, plus the reduced worth of each.
    """
    best = least_worth
    workloads = len(candidates.first) - 1
    reduced_worth = candidates.worth[: candidates.first[-1]] - bound.per_ms * candidates.time_ms[: candidates.first[-1]]
    cycle_worth = bound.per_ms * high_ms
    # Undominated slots of all later workloads: by rising time and worth.
    frontier_ms, frontier_slot = np.empty(len(reduced_worth)), np.empty(len(reduced_worth), dtype=np.int64)
    frontier_size = 0
    for j in range(workloads - 1, -1, -1):
        for second in range(candidates.first[j], candidates.first[j + 1]):
            if cycle_worth + reduced_worth[second] + bound.first + bound.second <= best:
                continue
            for first in range(-1, candidates.first[j]):
                left_ms, value = high_ms - candidates.time_ms[second], candidates.worth[second]
                if first >= 0:
                    if cycle_worth + reduced_worth[second] + reduced_worth[first] + bound.first <= best:
                        continue
                    left_ms, value = left_ms - candidates.time_ms[first], value + candidates.worth[first]
                if left_ms < 0.0:
                    continue
                third = -1
                if frontier_size > 0:
                    position = np.searchsorted(frontier_ms[:frontier_size], left_ms, side="right") - 1
                    if position >= 0:
                        third = frontier_slot[position]
                        value += candidates.worth[third]
                if value > best:
                    best = value
                    chosen[0], chosen[1], chosen[2] = second, first, third
        later_slots = frontier_slot[:frontier_size].copy()
        frontier_size = _extend_frontier(candidates, j, later_slots, frontier_ms, frontier_slot)
    return best


@compiled
def _extend_frontier(
    candidates: SlotCandidates, workload: int, later_slots: Ints, frontier_ms: Floats, frontier_slot: Ints
) -> int:
    """Merge a workload's slots with ``later_slots``, the undominated slots of later workloads; return their number."""
    i, k, frontier_size = 0, candidates.first[workload], 0
    last = candidates.first[workload + 1]
    while i < len(later_slots) or k < last:
        if k >= last or (i < len(later_slots) and candidates.time_ms[later_slots[i]] <= candidates.time_ms[k]):
            slot = later_slots[i]
            i += 1
        else:
            slot = k
            k += 1
        if frontier_size == 0 or candidates.worth[slot] > candidates.worth[frontier_slot[frontier_size - 1]]:
            frontier_ms[frontier_size], frontier_slot[frontier_size] = candidates.time_ms[slot], slot
            frontier_size += 1
    return frontier_size


@compiled
def most_in_turns(
    tables: Tables,
    demand: DemandOnGpu,
    position: GpuletPosition,
    worth: Floats,
    most_rps: Floats,
    least_worth: float,
    workload: Ints,
    rate_rps: Floats,
) -> float:
    """Bound the worth of slots that take turns, and write the slots that attain the bound.

    Duty cycles are divided into ranges. In each range, a slot serves the rate of the shortest cycle, and the slots may
    take the time of the longest.

    Parameters
    ----------
    worth, most_rps
        Worth of one request per second of each workload, and the largest rate that counts, shape (workloads,).
    least_worth
        Worth at or below which turns need no exact bound.
    workload, rate_rps
        Overwritten with the workloads of the slots (-1: none) and their rates, shape (3,); unchanged if turns are worth
        at most ``least_worth``.

    Returns
    -------
    float
        The bound, at least ``least_worth``.
    """
    times_ms, _, _ = all_times_ms(tables, demand, position)
    for b in range(times_ms.shape[1] - 2, 0, -1):  # a larger batch with less time dominates a smaller one
        times_ms[:, b] = np.minimum(times_ms[:, b], times_ms[:, b + 1])
    shortest_ms, longest_ms = np.inf, 0.0
    for w in range(len(worth)):
        if worth[w] > 0.0:
            shortest_ms = min(shortest_ms, times_ms[demand.model[w]].min())
            longest_ms = max(longest_ms, demand.slo_ms[w])
    if not 2.0 * shortest_ms <= longest_ms:
        return least_worth
    ranges = int(np.ceil(np.log(longest_ms / shortest_ms) / np.log(1.0 + CYCLE_STEP) / RANGES_AT_ONCE))
    most_candidates = len(worth) * times_ms.shape[1] * (times_ms.shape[1] + 1) // 2
    candidates = SlotCandidates(
        np.empty(len(worth) + 1, dtype=np.int64), np.empty(most_candidates), np.empty(most_candidates)
    )
    limits = np.empty(ranges)
    for r in range(ranges):
        low_ms, high_ms = _range_ms(shortest_ms, r * RANGES_AT_ONCE, RANGES_AT_ONCE)
        _write_candidates(demand, times_ms, worth, most_rps, low_ms, high_ms, candidates)
        limits[r] = _cycle_bound(candidates, high_ms).limit
    best = least_worth
    chosen = np.full(SLOTS, -1, dtype=np.int64)
    for r in np.argsort(-limits):
        if limits[r] <= best:
            break
        for narrow in range(r * RANGES_AT_ONCE, (r + 1) * RANGES_AT_ONCE):
            low_ms, high_ms = _range_ms(shortest_ms, narrow, 1)
            _write_candidates(demand, times_ms, worth, most_rps, low_ms, high_ms, candidates)
            bound = _cycle_bound(candidates, high_ms)
            value = _best_three(candidates, high_ms, bound, best, chosen) if bound.limit > best else best
            if value > best:
                best = value
                workload[:], rate_rps[:] = -1, 0.0
                for s in range(SLOTS):
                    if chosen[s] >= 0:
                        w = np.searchsorted(candidates.first, chosen[s], side="right") - 1
                        workload[s], rate_rps[s] = w, candidates.worth[chosen[s]] / worth[w]
    return best


@compiled
def _range_ms(shortest_ms: float, first: int, count: int) -> tuple[float, float]:
    """Return the ends of ``count`` consecutive ranges of duty cycles, starting at number ``first``."""
    return shortest_ms * (1.0 + CYCLE_STEP) ** first, shortest_ms * (1.0 + CYCLE_STEP) ** (first + count)

"""Changes to GPUs that are cut into gpulets: split, fill, make room, take back; by compiled kernels."""

import numpy as np
from numba import njit

from heuristics.gpulets import MOST_SLOTS, SLACK, Gpulets, GpuletTerms, capacity_rps, cycles, load, neighbour_of, settle
from instances.arrays import Floats
from instances.tables import Tables

BISECTIONS = 12
"""Steps in which a largest rate is found."""

LEAST_PART = 0.01
"""Smallest part of a rest for which it gets one more slot."""


@njit(cache=True)
def snapshot(gpulets: Gpulets, i: int) -> Gpulets:
    """Return a copy of the two gpulets of the GPU of ``i``."""
    g = i - i % 2
    return Gpulets(
        gpulets.units[g : g + 2].copy(),
        gpulets.slots[g : g + 2].copy(),
        gpulets.workload[g : g + 2].copy(),
        gpulets.batch[g : g + 2].copy(),
        gpulets.rate_rps[g : g + 2].copy(),
        gpulets.cycle_ms[g : g + 2].copy(),
    )


@njit(cache=True)
def restore(gpulets: Gpulets, i: int, before: Gpulets) -> None:
    """Make the GPU of ``i`` what it was ``before``."""
    g = i - i % 2
    gpulets.units[g : g + 2] = before.units
    gpulets.slots[g : g + 2] = before.slots
    gpulets.workload[g : g + 2] = before.workload
    gpulets.batch[g : g + 2] = before.batch
    gpulets.rate_rps[g : g + 2] = before.rate_rps
    gpulets.cycle_ms[g : g + 2] = before.cycle_ms


@njit(cache=True)
def split(tables: Tables, gpulets: Gpulets, i: int, units: int) -> None:
    """Cut an undivided GPU into a gpulet of ``units`` and the largest permitted one that is left."""
    rest = 0
    for permitted in tables.permitted:
        if permitted <= tables.share_units - units:
            rest = permitted
    gpulets.units[i], gpulets.units[i ^ 1] = units, rest


@njit(cache=True)
def revert_split(tables: Tables, gpulets: Gpulets, i: int) -> None:
    """Make the GPU of ``i`` whole again if it runs nothing."""
    g = i - i % 2
    if gpulets.slots[g] == 0 and gpulets.slots[g + 1] == 0:
        gpulets.units[g], gpulets.units[g + 1] = tables.share_units, 0


@njit(cache=True)
def put(gpulets: Gpulets, i: int, workload: int, rate_rps: float) -> bool:
    """Add to the slot that a workload has in gpulet ``i``, or a slot if there is room for one; nothing is settled."""
    for s in range(gpulets.slots[i]):
        if gpulets.workload[i, s] == workload:
            gpulets.rate_rps[i, s] += rate_rps
            return True
    s = gpulets.slots[i]
    if s == MOST_SLOTS:
        return False
    gpulets.workload[i, s], gpulets.rate_rps[i, s], gpulets.batch[i, s] = workload, rate_rps, 0
    gpulets.slots[i] = s + 1
    return True


@njit(cache=True)
def make_room(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int) -> tuple[bool, int, float]:
    """Settle the GPU of ``i``, if need be at the cost of the neighbour's largest slot.

    Returns
    -------
    settled : bool
        Whether that was possible; if not, the GPU is in no state to be kept.
    workload : int
        Whose slot it is, -1 if none.
    lost_rps : float
        What that slot serves less.
    """
    if settle(tables, terms, gpulets, i):
        return True, -1, 0.0
    other = i ^ 1
    if gpulets.slots[other] == 0 or not cycles(tables, terms, gpulets, i):
        return False, -1, 0.0
    slot = np.argmax(gpulets.rate_rps[other, : gpulets.slots[other]])
    before = gpulets.rate_rps[other, slot]
    low, high = 0.0, before
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        gpulets.rate_rps[other, slot] = middle
        if settle(tables, terms, gpulets, i):
            low = middle
        else:
            high = middle
    gpulets.rate_rps[other, slot] = low
    return low > 0.0 and settle(tables, terms, gpulets, i), gpulets.workload[other, slot], before - low


@njit(cache=True)
def give(
    tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int, workload: int, rate_rps: float, rest_rps: Floats
) -> bool:
    """Let gpulet ``i`` serve ``rate_rps`` of a workload, by turns if it serves others; if it cannot, change nothing.

    A neighbour may have to serve less. That is accepted if it is less than what a free gpulet can serve or, where
    others are in it, than half of what is gained, so that it comes to an end; both in parts of what a whole GPU serves.

    Parameters
    ----------
    tables, terms, gpulets
        Of the GPU type, what is asked for, and the state that is changed.
    i, workload, rate_rps
        Who is to serve what.
    rest_rps
        What is not served yet of each workload; changed along.
    """
    if rate_rps > (1.0 - load(terms, gpulets, i)) * terms.alone_rps[workload, gpulets.units[i]] * (1.0 + SLACK):
        return False
    before = snapshot(gpulets, i)
    gain_rps = rate_rps / 2.0
    if gpulets.slots[i] == 0:
        beside = neighbour_of(tables, terms, gpulets, i)
        gain_rps = capacity_rps(tables, terms, workload, gpulets.units[i], beside)
    if put(gpulets, i, workload, rate_rps):
        settled, loser, lost_rps = make_room(tables, terms, gpulets, i)
        if settled and (
            loser < 0
            or lost_rps * terms.alone_rps[workload, tables.share_units]
            < gain_rps * terms.alone_rps[loser, tables.share_units]
        ):
            rest_rps[workload] = max(0.0, rest_rps[workload] - rate_rps)
            if loser >= 0:
                rest_rps[loser] += lost_rps
            return True
    restore(gpulets, i, before)
    return False


@njit(cache=True)
def give_most(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int, workload: int, rest_rps: Floats) -> bool:
    """Let gpulet ``i`` serve as much as it can of what is not served yet of a workload, without cost to others."""
    spare_rps = (1.0 - load(terms, gpulets, i)) * terms.alone_rps[workload, gpulets.units[i]]
    low, high = LEAST_PART * rest_rps[workload], min(rest_rps[workload], spare_rps)
    if low > high:
        return False
    before = snapshot(gpulets, i)
    if not (put(gpulets, i, workload, low) and settle(tables, terms, gpulets, i)):
        restore(gpulets, i, before)
        return False
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        restore(gpulets, i, before)
        put(gpulets, i, workload, middle)
        if settle(tables, terms, gpulets, i):
            low = middle
        else:
            high = middle
    restore(gpulets, i, before)
    put(gpulets, i, workload, low)
    settle(tables, terms, gpulets, i)
    rest_rps[workload] -= low
    return True

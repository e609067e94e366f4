"""Changes to GPUs that are split into gpulets: split, fill, make room, undo; by compiled kernels."""

import numpy as np

from heuristics.gpulet.state import (
    MOST_SLOTS,
    SLACK,
    Gpulets,
    GpuletTerms,
    capacity_rps,
    cycles,
    load,
    neighbour_of,
    settle,
)
from instances.arrays import Floats
from instances.compiled import compiled
from instances.tables import Tables

BISECTIONS = 12
"""Bisection steps in the search for a largest rate."""

LEAST_PART = 0.01
"""Smallest part of an unserved rate for which a slot is added."""


@compiled
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


@compiled
def restore(gpulets: Gpulets, i: int, before: Gpulets) -> None:
    """Restore the GPU of ``i`` from ``before``."""
    g = i - i % 2
    gpulets.units[g : g + 2] = before.units
    gpulets.slots[g : g + 2] = before.slots
    gpulets.workload[g : g + 2] = before.workload
    gpulets.batch[g : g + 2] = before.batch
    gpulets.rate_rps[g : g + 2] = before.rate_rps
    gpulets.cycle_ms[g : g + 2] = before.cycle_ms


@compiled
def split(tables: Tables, gpulets: Gpulets, i: int, units: int) -> None:
    """Split an undivided GPU into a gpulet of ``units`` and the largest permitted remainder."""
    rest = 0
    for permitted in tables.permitted:
        if permitted <= tables.share_units - units:
            rest = permitted
    gpulets.units[i], gpulets.units[i ^ 1] = units, rest


@compiled
def revert_split(tables: Tables, gpulets: Gpulets, i: int) -> None:
    """Merge the gpulets of the GPU of ``i`` if it is empty."""
    g = i - i % 2
    if gpulets.slots[g] == 0 and gpulets.slots[g + 1] == 0:
        gpulets.units[g], gpulets.units[g + 1] = tables.share_units, 0


@compiled
def put(gpulets: Gpulets, i: int, workload: int, rate_rps: float) -> bool:
    """Add a rate to the workload's slot in gpulet ``i``, or add a slot if there is room; batches stay as they are."""
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


@compiled
def _make_room(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int) -> tuple[bool, int, float]:
    """Settle the GPU of ``i``, if necessary by reducing the rate of the neighbour's largest slot.

    Return whether that was possible (if not, the state of the GPU is invalid), the workload of the reduced slot (-1
    without one), and the rate that it loses.
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


@compiled
def give(
    tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int, workload: int, rate_rps: float, rest_rps: Floats
) -> bool:
    """Let gpulet ``i`` serve ``rate_rps`` of a workload, by turns if it has other slots; if it cannot, change nothing.

    The neighbour's largest slot may lose rate, which is added to the unserved rates ``rest_rps``. The loss must be less
    than the rate that a free gpulet ``i`` can serve, or than half of ``rate_rps`` if ``i`` has slots; this guarantees
    termination. Loss and gain are compared as fractions of the rates that a whole GPU serves.
    """
    if rate_rps > (1.0 - load(terms, gpulets, i)) * terms.alone_rps[workload, gpulets.units[i]] * (1.0 + SLACK):
        return False
    before = snapshot(gpulets, i)
    gain_rps = rate_rps / 2.0
    if gpulets.slots[i] == 0:
        beside = neighbour_of(tables, terms, gpulets, i)
        gain_rps = capacity_rps(tables, terms, workload, gpulets.units[i], beside)
    if put(gpulets, i, workload, rate_rps):
        settled, loser, lost_rps = _make_room(tables, terms, gpulets, i)
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


@compiled
def give_most(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int, workload: int, rest_rps: Floats) -> bool:
    """Let gpulet ``i`` serve as much of a workload's unserved rate as it can without loss to others."""
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

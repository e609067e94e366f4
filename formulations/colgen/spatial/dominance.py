"""Dominance among the batches of one workload: tests for batches that no pattern needs."""

import numpy as np

from formulations.colgen.interference_boxes import least_share_beside
from instances.arrays import Flags, Floats
from instances.compiled import compiled
from instances.least_shares import least_share_within
from instances.tables import Tables

SURROUNDINGS = np.array([(1.0, 0.0, 0.0), (2.0, 20.0, 1.0), (3.0, 30.0, 1.1), (4.0, 40.0, 1.2)])
"""Residents, L2 demand (percent) and power (part of the power below throttling) at which batches are compared."""

Slot = tuple[int, int]
"""Batch and share in units."""


@compiled
def dominates(
    tables: Tables,
    model: int,
    batch: int,
    other_batch: int,
    budget_ms: Floats,
    memory_binds: bool,
) -> bool:
    """Return whether ``batch`` dominates ``other_batch``: a GPU stays feasible when it replaces the other.

    For every share at which the other batch can run alone, some share must exist that is no larger. At that share,
    ``batch`` demands no more L2, DRAM and power (and memory, if memory can bind) and meets its budget wherever the
    other does. The last part holds if the budget is no smaller and the active time, alone and beside others, is no
    larger relative to the budget. Then every term of the time test divided by the budget is no larger. The budget of
    batch b, ``budget_ms[b, 0]``, is the same at every share.
    """
    our_ms, their_ms = budget_ms[batch, 0], budget_ms[other_batch, 0]
    if our_ms < their_ms:
        return False
    if memory_binds and tables.memory_mib[model, batch] > tables.memory_mib[model, other_batch]:
        return False
    if tables.active_ms[model, batch, tables.share_units] == np.inf:
        return False
    theirs = least_share_within(tables, model, other_batch, budget_ms, other_batch)
    while theirs <= tables.share_units:
        ours = tables.next_share[0]
        covered = False
        while ours <= theirs and not covered:
            covered = (
                tables.active_ms[model, batch, ours] * their_ms <= tables.active_ms[model, other_batch, theirs] * our_ms
                and tables.active_ms[model, batch, ours] * tables.company[model, batch, ours] * their_ms
                <= tables.active_ms[model, other_batch, theirs] * tables.company[model, other_batch, theirs] * our_ms
                and tables.l2_pct[model, batch, ours] <= tables.l2_pct[model, other_batch, theirs]
                and tables.dram_pct[model, batch, ours] <= tables.dram_pct[model, other_batch, theirs]
                and tables.power_w[model, batch, ours] <= tables.power_w[model, other_batch, theirs]
            )
            ours = tables.next_share[ours]
        if not covered:
            return False
        theirs = tables.next_share[theirs]
    return True


@compiled
def covers(
    tables: Tables, model: int, ours: Slot, theirs: Slot, our_ms: float, their_ms: float, most_residents: int
) -> bool:
    """Return whether a slot can replace another of its workload: it demands no more, and is in time where that one is.

    Beside N residents and others of demand C and power P, a slot is in time if ``S + A c + A X <= f B``: S is the time
    before the active time A, c the company's factor, X >= 0 the growth due to C, f <= 1 the frequency, B the budget.
    The set of all (S, X, f) at which the other slot is in time is a polytope. This slot is in time at all of them if it
    is at the vertices: S is least, or largest with the other in time; and X is 0 and f least, or X largest and f is 1.

    Parameters
    ----------
    ours, theirs
        Batch and share of each slot.
    our_ms, their_ms
        Their budgets.
    """
    (b, u), (other, v) = ours, theirs
    if (
        u > v
        or our_ms <= 0.0
        or tables.l2_pct[model, b, u] > tables.l2_pct[model, other, v]
        or tables.dram_pct[model, b, u] > tables.dram_pct[model, other, v]
        or tables.power_w[model, b, u] > tables.power_w[model, other, v]
    ):
        return False
    active, their_active = tables.active_ms[model, b, u], tables.active_ms[model, other, v]
    beside, their_beside = active * tables.company[model, b, u], their_active * tables.company[model, other, v]
    least = tables.scheduling_ms[model]
    most = least + tables.kernels[model] * max(0.0, tables.alpha_sch * most_residents + tables.beta_sch)
    most = min(most, their_ms - their_beside)
    if (least + active) * their_ms > (least + their_active) * our_ms:  # alone
        return False
    for before in (least, most):
        room = their_ms - before - their_beside
        if room >= 0.0 and (
            (before + beside) * their_ms > (before + their_beside) * our_ms
            or (our_ms - before - beside) * their_active < room * active
        ):
            return False
    return True


@compiled
def replaceable(
    tables: Tables,
    model: int,
    batch: int,
    budget_ms: Floats,
    sure_ms: Floats,
    memory_binds: bool,
    most_residents: int,
    keep: Flags,
) -> bool:
    """Return whether, at every share at which ``batch`` can run alone, a slot of another batch in ``keep`` replaces it.

    Row b of ``budget_ms`` and ``sure_ms`` has upper and lower bounds on the budgets of batch b by share.
    """
    v = least_share_within(tables, model, batch, budget_ms, batch)
    while v <= tables.share_units:
        their_ms = budget_ms[batch, v]
        found = tables.scheduling_ms[model] + tables.active_ms[model, batch, v] > their_ms
        for b in range(1, len(keep)):
            if found:
                break
            if b == batch or not keep[b]:
                continue
            if memory_binds and tables.memory_mib[model, b] > tables.memory_mib[model, batch]:
                continue
            u = v
            while u > 0 and not found:
                if tables.next_share[u - 1] == u:
                    found = covers(tables, model, (b, u), (batch, v), sure_ms[b, u], their_ms, most_residents)
                u -= 1
        if not found:
            return False
        v = tables.next_share[v]
    return True


@compiled
def outshone(tables: Tables, model: int, batch: int, budget_ms: Floats, seen: Flags) -> bool:
    """Return whether in all ``SURROUNDINGS`` a batch of ``seen`` takes less share and demands no more than ``batch``.

    Row b of ``budget_ms`` has upper bounds on the budgets of batch b by share.
    """
    free_w = max(0.0, tables.max_power_w - tables.idle_power_w)
    for n, l2, part in SURROUNDINGS:
        found, residents, power = False, int(n), part * free_w
        v = least_share_beside(tables, model, batch, 1, budget_ms, batch, 1.0, residents, l2, power)
        for b in range(1, len(seen)):
            if found or v > tables.share_units:
                break
            if not seen[b]:
                continue
            u = least_share_beside(tables, model, b, 1, budget_ms, b, 1.0, residents, l2, power)
            found = (
                u < v
                and tables.l2_pct[model, b, u] <= tables.l2_pct[model, batch, v]
                and tables.power_w[model, b, u] <= tables.power_w[model, batch, v]
            )
        if not found and v <= tables.share_units:
            return False
    return True


@compiled
def drop_dominated(
    tables: Tables,
    model: int,
    budget_ms: Floats,
    sure_ms: Floats,
    memory_binds: bool,
    most_residents: int,
    keep: Flags,
) -> None:
    """Unmark the batches in ``keep`` (index 0 is unused) that other marked batches replace."""
    top = len(budget_ms) - 1
    if budget_ms.shape[1] > 1:
        for b in range(1, top + 1):
            if keep[b] and replaceable(tables, model, b, budget_ms, sure_ms, memory_binds, most_residents, keep):
                keep[b] = False
        return
    for b in range(1, top + 1):
        if not keep[b]:
            continue
        for other in range(1, top + 1):
            if other != b and keep[other] and dominates(tables, model, b, other, budget_ms, memory_binds):
                keep[other] = False

"""Rates and batches at which each workload can be served on one GPU type, after dominance."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.clock import now
from formulations.colgen.interference_boxes import least_share_within as least_share_beside
from formulations.configurations import Rates
from instances.arrays import Floats, Ints
from instances.least_shares import least_share_within
from instances.tables import Tables
from instances.view import View

MANY_OPTIONS = 10_000
"""Number of options from which on a box lists the least demands of each batch, and boxes are few at first."""


SURROUNDINGS = np.array([(1.0, 0.0, 0.0), (2.0, 20.0, 1.0), (3.0, 30.0, 1.1), (4.0, 40.0, 1.2)])
"""Residents, L2 demand (percent) and power (part of the power below throttling) in which batches are compared."""


class Choices(NamedTuple):
    """Choices of the workloads on one GPU type: a choice is a rate, its options are the undominated batches.

    A choice has no share: the share follows from the other residents of the GPU.

    Attributes
    ----------
    first
        Choices of workload w are ``first[w]`` to ``first[w + 1] - 1``, shape (workloads + 1,).
    workload, model, rate_rps
        Workload, DNN model and rate of each choice.
    option
        Batches of choice k are ``option[k]`` to ``option[k + 1] - 1``, shape (choices + 1,).
    batch, lower_units
        Batch of each option, and its least share alone.
    budget_ms, sure_ms
        Latency budgets of each option by share, shape (options, 1 or share units + 1). If they are bracketed, these are
        an upper bound, with which a pricing problem is relaxed, and a lower bound.
    copy_of
        The preceding workload if it is identical to this one, else -1, shape (workloads,). A pattern takes identical
        workloads in order (symmetry breaking).
    covering
        Whether the choices of a workload are parts of it, listed from large to small, of which a larger one replaces a
        smaller one.
    apart
        Whether branching forbids two workloads on one GPU, shape (workloads, workloads).
    mate_before, mate_after
        Partners that branching forces onto the same GPU: the nearest one before (else -1) and after (else the number of
        workloads), shape (workloads,).
    """

    first: Ints
    workload: Ints
    model: Ints
    rate_rps: Floats
    option: Ints
    batch: Ints
    budget_ms: Floats
    sure_ms: Floats
    lower_units: Ints
    copy_of: Ints
    covering: bool
    apart: NDArray[np.bool_]
    mate_before: Ints
    mate_after: Ints


LATE_S = 0.5
"""Allowance past the deadline for what pricing needs. Small instances need less, so they always have a bound."""

TOO_LATE = "the time was over before pricing began"

Slot = tuple[int, int]
"""Batch and share in units."""


@njit(cache=True)
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


@njit(cache=True)
def covers(
    tables: Tables, model: int, ours: Slot, theirs: Slot, our_ms: float, their_ms: float, most_residents: int
) -> bool:
    """Return whether a slot can replace another of its workload: it demands no more and is in time where that one is.

    Beside N residents and others of demand C and power P, a slot is in time if ``S + A c + A X <= f B``: S is the time
    before the active time A, c the company's factor, X >= 0 the growth due to C, f <= 1 the frequency, B the budget.
    The set of all (S, X, f) at which the other slot is in time is a polytope. This slot is in time at all of them if it
    is at the vertices: S is least, or largest with the other in time; and X is 0 and f least, or X largest and f is 1.

    Parameters
    ----------
    tables, model
        Tables of the GPU type and row of the DNN model.
    ours, theirs
        Batch and share of each slot.
    our_ms, their_ms
        Their budgets.
    most_residents
        Largest number of residents on one GPU.
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


@njit(cache=True)
def replaceable(
    tables: Tables,
    model: int,
    batch: int,
    budget_ms: Floats,
    sure_ms: Floats,
    memory_binds: bool,
    most_residents: int,
    keep: NDArray[np.bool_],
) -> bool:
    """Return whether at every share at which ``batch`` can run alone a slot of another marked batch can replace it.

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


@njit(cache=True)
def _outshone(tables: Tables, model: int, batch: int, budget_ms: Floats, seen: NDArray[np.bool_]) -> bool:
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


@njit(cache=True)
def _drop_dominated(
    tables: Tables,
    model: int,
    budget_ms: Floats,
    sure_ms: Floats,
    memory_binds: bool,
    most_residents: int,
    keep: NDArray[np.bool_],
) -> None:
    """Unmark the batches (by index, 0 unused) that other marked batches make superfluous."""
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


class _BatchTable(NamedTuple):
    """Batches of one workload, each at the rate with the largest budget among rates of one step; indexed by batch.

    ``budget_ms`` has the budgets by share, or an upper bound, and ``sure_ms`` a lower bound.
    """

    position: int
    model: int
    rate_rps: Floats
    budget_ms: Floats
    sure_ms: Floats
    lower_units: Ints
    possible: NDArray[np.bool_]


def _served(view: View, position: int, workload: int, rates_rps: Floats) -> _BatchTable:
    model = int(view.model[workload])
    top = int(view.tables.max_batch[model])
    # Several rates of one step are tried only under rules whose budget is the same at every share.
    budgets = view.budgets_ms(workload, np.arange(1, top + 1)[:, None], rates_rps[None, :])
    best = budgets.max(axis=2).argmax(axis=1)
    rate = rates_rps[np.append(0, best)]
    budget = np.full((top + 1, budgets.shape[2]), -np.inf)
    budget[1:] = budgets[np.arange(top), best]
    return _batch_table(view, position, model, rate, budget, budget)


def _batch_table(
    view: View, position: int, model: int, rate_rps: Floats, budget_ms: Floats, sure_ms: Floats
) -> _BatchTable:
    lower = np.array(
        [view.tables.share_units + 1]
        + [least_share_within(view.tables, model, b, budget_ms, b) for b in range(1, len(budget_ms))],
        dtype=np.int64,
    )
    possible = (budget_ms.max(axis=1) > 0.0) & (lower <= view.tables.share_units)
    return _BatchTable(position, model, rate_rps, budget_ms, sure_ms, lower, possible)


def _bracketed(view: View, position: int, workload: int, rates: Rates) -> list[_BatchTable]:
    """Return the batches of a workload at each of its rates, with bounds on their budgets, from high to low rates.

    Budgets fall with the rate, so those at the next lower rate are upper bounds. A batch that is superfluous with these
    is left out unseen. One that is outshone with these keeps them: few patterns need its budgets.
    """
    tables, model = view.tables, int(view.model[workload])
    top = int(tables.max_batch[model])
    most_ms = np.full((top + 1, tables.share_units + 1), np.inf)
    most_ms[0] = -np.inf
    found: list[_BatchTable] = []
    for rate in np.sort(rates.rate_rps).tolist():
        budget, sure = np.full_like(most_ms, -np.inf), np.full_like(most_ms, -np.inf)
        keep, seen = np.zeros(top + 1, dtype=np.bool_), np.zeros(top + 1, dtype=np.bool_)
        # Batches of the smallest shares come first: they outshine the others.
        order = np.argsort(found[-1].lower_units[1:], kind="stable") + 1 if found else np.arange(1, top + 1)
        for b in order.tolist():
            if most_ms[b].max() <= 0.0:
                continue
            if np.isfinite(most_ms[b].max()):
                if replaceable(tables, model, b, most_ms, sure, True, tables.most_residents, keep):
                    continue
                if _outshone(tables, model, b, most_ms, seen):
                    budget[b], keep[b] = most_ms[b], True
                    continue
            lower_rate_ms = most_ms[b] if np.isfinite(most_ms[b]).any() else None
            sure[b], budget[b] = view.bracket_ms(workload, b, rate, lower_rate_ms)
            most_ms[b], keep[b] = budget[b], budget[b].max() > 0.0
            seen[b] = keep[b]
        found.append(_batch_table(view, position, model, np.full(top + 1, rate), budget, sure))
    return found[::-1]


def _memory_can_bind(view: View, served: list[_BatchTable]) -> bool:
    """Return whether some set of workloads may fit by shares but not by memory (fractional knapsack)."""
    memory: dict[int, float] = {}
    units: dict[int, int] = {}
    for s in served:
        if s.possible.any():
            batches = np.flatnonzero(s.possible)
            memory[s.position] = max(memory.get(s.position, 0.0), float(view.tables.memory_mib[s.model, batches].max()))
            units[s.position] = min(units.get(s.position, 10**9), int(s.lower_units[batches].min()))
    left, total = float(view.tables.share_units), 0.0
    for position in sorted(memory, key=lambda p: -memory[p] / units[p]):
        part = min(1.0, left / units[position])
        total += part * memory[position]
        left -= part * units[position]
        if left <= 0.0:
            break
    return total > view.tables.memory_limit_mib


def all_choices(
    view: View,
    workloads: Ints,
    copy_of: Ints,
    rates: Sequence[Rates],
    covering: bool = False,
    deadline: float = math.inf,
    bracketed: bool = False,
) -> Choices:
    """List the choices of ``workloads``: their rates, and the undominated batches for each.

    Among rates of the same step, a batch is listed only at the rate with the largest budget.

    Parameters
    ----------
    view
        The instance as seen from one GPU type.
    workloads
        Positions in the instance, in the order in which patterns list them.
    copy_of
        See ``Choices``.
    rates
        Rates that each workload may be planned for, in the order of the instance.
    covering
        See ``Choices``.
    deadline
        See ``reachable_takes``; budgets of thousands of choices take minutes.
    bracketed
        Whether bounds on the budgets are enough; every rate then has a step of its own.

    Raises
    ------
    TimeoutError
        If the deadline passes.
    """
    served: list[_BatchTable] = []
    for position, w in enumerate(workloads.tolist()):
        if bracketed:
            served += _bracketed(view, position, w, rates[w])
        for step in [] if bracketed else np.unique(rates[w].step)[::-1]:
            if now() > deadline + LATE_S:
                raise TimeoutError(TOO_LATE)
            served.append(_served(view, position, w, rates[w].rate_rps[rates[w].step == step]))
        if now() > deadline + LATE_S:
            raise TimeoutError(TOO_LATE)
    memory_binds = _memory_can_bind(view, served)
    least = min((int(s.lower_units[s.possible].min()) for s in served if s.possible.any()), default=1)
    most_residents = min(view.tables.most_residents, view.tables.share_units // least)
    choices: list[tuple[int, int, float]] = []
    options: list[tuple[int, int]] = []
    budgets: list[tuple[Floats, Floats]] = []
    first = np.zeros(len(workloads) + 1, dtype=np.int64)
    option = [0]
    for s in served:
        keep = s.possible.copy()
        _drop_dominated(view.tables, s.model, s.budget_ms, s.sure_ms, memory_binds, most_residents, keep)
        for rate in np.unique(s.rate_rps[keep]).tolist():
            batches = np.flatnonzero(keep & (s.rate_rps == rate))
            options += [(int(b), int(s.lower_units[b])) for b in batches]
            budgets.append((s.budget_ms[batches], s.sure_ms[batches]))
            choices.append((s.position, s.model, rate))
            option.append(len(options))
        first[s.position + 1] = len(choices)
    workload, model, rate_rps = zip(*choices, strict=True) if choices else ((), (), ())
    batch, lower = zip(*options, strict=True) if options else ((), ())
    none = np.empty((0, served[0].budget_ms.shape[1] if served else 1))
    return Choices(
        first,
        np.array(workload, dtype=np.int64),
        np.array(model, dtype=np.int64),
        np.array(rate_rps, dtype=np.float64),
        np.array(option, dtype=np.int64),
        np.array(batch, dtype=np.int64),
        np.concatenate([none, *(most for most, _ in budgets)]),
        np.concatenate([none, *(sure for _, sure in budgets)]),
        np.array(lower, dtype=np.int64),
        copy_of,
        covering,
        np.zeros((len(workloads), len(workloads)), dtype=np.bool_),
        np.full(len(workloads), -1, dtype=np.int64),
        np.full(len(workloads), len(workloads), dtype=np.int64),
    )

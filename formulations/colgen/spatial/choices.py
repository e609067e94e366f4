"""Choices of one GPU type: rates and undominated batches of each workload, and whether some of them fit together."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from formulations.colgen.clock import now
from formulations.colgen.interference_boxes import outshone
from formulations.colgen.pairs import Pairs
from formulations.colgen.spatial.known_demands import KnownDemands
from instances.arrays import Flags, Floats, Ints
from instances.configurations import Configurations, Rates
from instances.dominance import drop_dominated, replaceable
from instances.least_shares import least_share_within
from instances.tolerance import MARGIN
from instances.view import View

MANY_OPTIONS = 10_000
"""Number of options from which boxes have entries by batch, and are few at first: see ``Pricer``."""

BATCHES_LIMIT = 256
"""Least node limit of the batch search for one set of residents; a set undecided at the limit counts in the bound."""

BY_SHARE_LIMIT = 4096
"""The same limit where budgets depend on the share, and dozens of batches are undominated."""

HASTY_LIMIT = 64
"""The same limit where a bound within a percent is wanted, and not an exact one."""

MOST_BUDGETS = 1_000_000
"""Largest number of budgets that are computed before pricing; that many take some ten seconds."""


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
        Latency budgets of each option by share, shape (options, 1 or share units + 1). If budgets are bracketed, the
        first ones are upper bounds, which relax the pricing problem, and the second ones lower bounds.
    copy_of
        The preceding workload if it is identical to this one, else -1, shape (workloads,). A pattern takes identical
        workloads in order (symmetry breaking).
    covering
        Whether the choices of a workload are parts of it, listed from large to small, and a larger part may replace a
        smaller one.
    pairs
        Conditions of branching on pairs of workloads.
    known
        Least shares and demands of the choices at floors of interference.
    batches_limit
        Least node limit of the batch search for one set of residents.
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
    pairs: Pairs
    known: KnownDemands
    batches_limit: int


LATE_S = 0.5
"""Time past the deadline in which choices and boxes may be completed: enough for small instances to have a bound."""

TOO_LATE = "the time was over before pricing began"


_Batches = tuple[Configurations, Floats]
"""Batches of one workload, each at the rate with the largest budget among rates of one step.

Row b of the configurations has batch b, its least share alone, and its budgets by share, or upper bounds on them. The
array has lower bounds on the budgets.
"""


def _served(view: View, workload: int, rates_rps: Floats) -> _Batches:
    """Return the batches of a workload, each at that of the rates for which its budget is largest."""
    top = int(view.tables.max_batch[int(view.model[workload])])
    # Several rates of one step are tried only under rules whose budget is the same at every share.
    budgets = view.budgets_ms(workload, np.arange(1, top + 1)[:, None], rates_rps[None, :])
    best = budgets.max(axis=2).argmax(axis=1)
    rate = rates_rps[np.append(0, best)]
    budget = np.full((top + 1, budgets.shape[2]), -np.inf)
    budget[1:] = budgets[np.arange(top), best]
    return _batches(view, workload, rate, budget, budget)


def _batches(view: View, workload: int, rate_rps: Floats, budget_ms: Floats, sure_ms: Floats) -> _Batches:
    tables, model, batch = view.tables, int(view.model[workload]), np.arange(len(budget_ms))
    lower = [tables.share_units + 1, *(least_share_within(tables, model, b, budget_ms, b) for b in batch[1:].tolist())]
    item, first, step = np.zeros_like(batch), np.array([0, len(batch)]), np.ones_like(batch)
    of, units = np.full_like(batch, workload), np.array(lower, dtype=np.int64)
    models = np.full_like(batch, model)
    return Configurations(first, item, of, models, batch, units, rate_rps, step, budget_ms), sure_ms


def _possible(view: View, batches: Configurations) -> Flags:
    """Return which batches some share of a GPU serves."""
    flags: Flags = (batches.budget_ms.max(axis=1) > 0.0) & (batches.units <= view.tables.share_units)
    return flags


def _bracketed(view: View, workload: int, rates: Rates) -> list[_Batches]:
    """Return the batches of a workload at each of its rates, with bounds on their budgets, from high to low rates.

    Budgets fall as the rate grows, so those at the next lower rate are upper bounds. A batch that is replaceable at
    these is left out. A batch that is outshone at these keeps them, since few patterns need its budgets.
    """
    tables, model = view.tables, int(view.model[workload])
    top = int(tables.max_batch[model])
    most_ms = np.full((top + 1, tables.share_units + 1), np.inf)
    most_ms[0] = -np.inf
    found: list[_Batches] = []
    for rate in np.sort(rates.rate_rps).tolist():
        budget, sure = np.full_like(most_ms, -np.inf), np.full_like(most_ms, -np.inf)
        keep, seen = np.zeros(top + 1, dtype=np.bool_), np.zeros(top + 1, dtype=np.bool_)
        # Batches of small shares come first, since they outshine others.
        order = np.argsort(found[-1][0].units[1:], kind="stable") + 1 if found else np.arange(1, top + 1)
        for b in order.tolist():
            if most_ms[b].max() <= 0.0:
                continue
            if np.isfinite(most_ms[b].max()):
                if replaceable(tables, model, b, most_ms, sure, True, tables.most_residents, keep):
                    continue
                if outshone(tables, model, b, most_ms, seen):
                    budget[b], keep[b] = most_ms[b], True
                    continue
            lower_rate_ms = most_ms[b] if np.isfinite(most_ms[b]).any() else None
            sure[b], budget[b] = view.bracket_ms(workload, b, rate, lower_rate_ms)
            most_ms[b], keep[b] = budget[b], budget[b].max() > 0.0
            seen[b] = keep[b]
        found.append(_batches(view, workload, np.full(top + 1, rate), budget, sure))
    return found[::-1]


def _memory_can_bind(view: View, served: Sequence[Sequence[_Batches]]) -> bool:
    """Return whether some set of workloads may fit by shares but not by memory (fractional knapsack)."""
    memory: dict[int, float] = {}
    units: dict[int, int] = {}
    for position, at_rates in enumerate(served):
        possible = [batches.only(_possible(view, batches)) for batches, _ in at_rates]
        possible = [batches for batches in possible if batches.size]
        if possible:
            memory[position] = max(float(batches.memory_mib(view.tables).max()) for batches in possible)
            units[position] = min(int(batches.units.min()) for batches in possible)
    left, total = float(view.tables.share_units), 0.0
    for position in sorted(memory, key=lambda p: -memory[p] / units[p]):
        part = min(1.0, left / units[position])
        total += part * memory[position]
        left -= part * units[position]
        if left <= 0.0:
            break
    return total * (1.0 + MARGIN) > view.tables.memory_limit_mib


def all_choices(
    view: View,
    workloads: Ints,
    copy_of: Ints,
    rates: Sequence[Rates],
    covering: bool = False,
    deadline: float = math.inf,
    bracketed: bool = False,
    hasty: bool = False,
) -> Choices:
    """List the choices of ``workloads``: their rates, and the undominated batches for each.

    Among rates of the same step, a batch is listed only at the rate with the largest budget.

    Parameters
    ----------
    workloads
        Positions in the instance, in the order in which patterns list them.
    rates
        Rates that each workload may be planned for, in the order of the instance.
    copy_of, covering
        See ``Choices``.
    deadline
        See ``reachable_boxes``; budgets of thousands of choices take minutes.
    bracketed
        Whether bounds on the budgets are enough; every rate then has a step of its own.
    hasty
        Whether the batch search for one set of residents is short.

    Raises
    ------
    TimeoutError
        If the deadline passes.
    """
    served: list[list[_Batches]] = []
    for w in workloads.tolist():
        served.append(_bracketed(view, w, rates[w]) if bracketed else [])
        for step in [] if bracketed else np.unique(rates[w].step)[::-1]:
            if now() > deadline + LATE_S:
                raise TimeoutError(TOO_LATE)
            served[-1].append(_served(view, w, rates[w].rate_rps[rates[w].step == step]))
        if now() > deadline + LATE_S:
            raise TimeoutError(TOO_LATE)
    memory_binds = _memory_can_bind(view, served)
    every = [batches.only(_possible(view, batches)) for at_rates in served for batches, _ in at_rates]
    least = min((int(batches.units.min()) for batches in every if batches.size), default=1)
    most_residents = min(view.tables.most_residents, view.tables.share_units // least)
    options: list[Configurations] = []
    sure = [np.empty((0, every[0].budget_ms.shape[1] if every else 1))]
    first, option = np.zeros(len(workloads) + 1, dtype=np.int64), [0]
    for position, at_rates in enumerate(served):
        for batches, sure_ms in at_rates:
            keep, model = _possible(view, batches), int(batches.model[0])
            drop_dominated(view.tables, model, batches.budget_ms, sure_ms, memory_binds, most_residents, keep)
            for rate in np.unique(batches.rate_rps[keep]).tolist():
                at_rate = np.flatnonzero(keep & (batches.rate_rps == rate))
                options.append(batches.only(at_rate))
                sure.append(sure_ms[at_rate])
                option.append(option[-1] + len(at_rate))
        first[position + 1] = len(options)
    none = np.zeros(0, dtype=np.int64)
    return Choices(
        first,
        np.repeat(np.arange(len(workloads)), np.diff(first)),
        np.concatenate([none, *(of.model[:1] for of in options)]),
        np.concatenate([np.zeros(0), *(of.rate_rps[:1] for of in options)]),
        np.array(option, dtype=np.int64),
        np.concatenate([none, *(of.batch for of in options)]),
        np.concatenate([sure[0], *(of.budget_ms for of in options)]),
        np.concatenate(sure),
        np.concatenate([none, *(of.units for of in options)]),
        copy_of,
        covering,
        Pairs.none(len(workloads)),
        KnownDemands.of(view.tables, len(options), most_residents),
        HASTY_LIMIT if hasty else BATCHES_LIMIT if sure[0].shape[1] == 1 else BY_SHARE_LIMIT,
    )


def budgets_of(views: Sequence[View], rates: Sequence[Rates]) -> int:
    """Return the number of budgets on all GPU types: one for each rate, batch and share of a workload."""
    return sum(
        len(of.rate_rps) * int(view.tables.max_batch[model]) * len(view.tables.permitted)
        for view in views
        for of, model in zip(rates, view.model, strict=True)
    )

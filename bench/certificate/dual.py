"""Bound of one relaxation from duals in whole numbers.

Let every class c of identical workloads have a dual ``p_c`` and every GPU type t a dual ``g_t``. A pattern is the set
of slots on one GPU, and ``part`` is the part of its workload that a slot serves.

- ``cost``: if every pattern of a GPU of type t has ``sum p_c part <= price_t + g_t``, then every plan costs at least
  ``sum p_c copies_c - sum (g_t count_t if g_t > 0 else g_t least_t)``: add the inequality over the GPUs of the plan,
  and note that the patterns cover every class. ``p_c`` is at least 0; ``g_t > 0`` needs a limit on the GPUs.
- ``goodput``, ``capacity``: if every pattern earns at most ``g_t >= 0`` beyond the charges ``p_c``, then every plan
  earns at most ``sum p_c copies_c + sum g_t count_t``. Under ``goodput`` a workload may be left out, so ``p_c >= 0``.
- ``scale``: as ``cost``, with all rates multiplied by the claimed bound. No such plan exists if it would cost more than
  the whole pool.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np

from bench.certificate.certificate import Leaf
from bench.certificate.conditions import Conditions
from bench.certificate.divided import divided_on, served_alone
from bench.certificate.divided_search import DividedSearch
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.knapsack import MOST_WORTH
from bench.certificate.one_gpu import fits
from bench.certificate.patterns import Progress, SlotOffer, candidates_on, merged_tables
from bench.certificate.search import SET_NODES, GpuSearch
from bench.certificate.statement import Statement
from instances import Objective


def proven_bound(
    statement: Statement, leaf: Leaf, unit: int, branch: Conditions, where: str, progress: Progress
) -> Fraction | float:
    """Return the bound that duals prove for the plans of a branch; infinite if there are none.

    Raises
    ------
    NotProvenError
        If a dual has the wrong sign, a pattern is worth more than its GPU, or the search gives up.
    """
    _check_shape(statement, leaf, branch, where)
    for t in range(len(statement.views)):
        if branch.most[t] != 0:
            _check_patterns(statement, leaf, unit, branch, t, where, progress)
    return bound_of(statement, leaf, unit, branch)


def bound_of(statement: Statement, leaf: Leaf, unit: int, branch: Conditions) -> Fraction | float:
    """Return the bound of duals that no pattern exceeds."""
    if statement.serves_all and _unservable(statement, branch):
        return inf if statement.minimised else -inf
    total = sum(p * int(n) for p, n in zip(leaf.workloads, statement.copies, strict=True))
    for g, most, least in zip(leaf.gpus, branch.most, branch.least, strict=True):
        if statement.minimised:
            total -= g * (most or 0) if g > 0 else g * least
        else:
            total += g * (most or 0)
    return Fraction(total, unit)


def _unservable(statement: Statement, branch: Conditions) -> bool:
    """Return whether there is a class whose slots are feasible on no GPU type of the branch, even alone on a GPU."""
    waiting = set(range(len(statement.copies)))
    for t, view in enumerate(statement.views):
        tried = sorted(c for c in waiting if (c, t) not in branch.barred) if branch.most[t] != 0 else []
        if statement.any_parts:
            divided = divided_on(view, dict.fromkeys(tried, 1), statement.member, statement.copies)
            alone = [k for k in range(len(divided.model)) if served_alone(view.tables, divided, k)]
            waiting -= set(divided.of_class[alone].tolist())
        elif tried:
            nothing, merged = [0] * len(statement.copies), merged_tables(view.tables)
            candidates = candidates_on(view, offers_of(statement, nothing, 1, tried))
            for k, c in enumerate(candidates.of_class.tolist()):
                one = np.array([k], dtype=np.int64)
                if c in waiting and fits(view.tables, merged, candidates, one, SET_NODES) != 0:
                    waiting.remove(c)
    return bool(waiting)


def _check_shape(statement: Statement, leaf: Leaf, branch: Conditions, where: str) -> None:
    for kind, given, expected in (
        ("classes of workloads", leaf.workloads, len(statement.copies)),
        ("GPU types", leaf.gpus, len(statement.views)),
    ):
        if len(given) != expected:
            raise NotProvenError(f"{where}: {len(given)} duals for {expected} {kind}")
    free = statement.instance.objective is Objective.CAPACITY
    for c, p in enumerate(leaf.workloads):
        if p < 0 and not free:
            raise NotProvenError(f"{where}: the dual of class {c} is negative")
    for t, g in enumerate(leaf.gpus):
        name = statement.views[t].gpu.name
        if g > 0 and branch.most[t] is None:
            raise NotProvenError(f"{where}: {name} has a dual, but no limit on its GPUs")
        if g < 0 and not statement.minimised:
            raise NotProvenError(f"{where}: the dual of {name} is negative; its GPUs may stay idle")


def _check_patterns(
    statement: Statement,
    leaf: Leaf,
    unit: int,
    branch: Conditions,
    t: int,
    where: str,
    progress: Progress,
) -> None:
    """Check that no pattern of a GPU of type t is worth more than its GPU."""
    view = statement.views[t]
    threshold = leaf.gpus[t] + (floor(statement.prices[t] * unit) if statement.minimised else 0)
    if threshold < 0:
        raise NotProvenError(f"{where}: an empty {view.gpu.name} is worth more than the GPU")
    threshold = min(threshold, MOST_WORTH)  # the search refuses larger worths
    allowed = [c for c in range(len(statement.copies)) if (c, t) not in branch.barred]
    try:
        if statement.any_parts:
            worth = {c: _worth_of_whole(statement, leaf.workloads[c], unit, c) for c in allowed}
            divided = divided_on(view, worth, statement.member, statement.copies)
            pattern = DividedSearch(view.tables, divided).above(threshold, progress)
        else:
            apart, together = branch.matrices(len(statement.copies))
            offers = [
                # Candidates without positive worth are left out: a pattern without them also fits and is worth at
                # least as much. Those that the branch ties to other classes stay.
                offer
                for offer in offers_of(statement, leaf.workloads, unit, allowed)
                if offer.worth > 0 or offer.per_rps > 0.0 or together[offer.of_class] >= 0
            ]
            search = GpuSearch(view.tables, candidates_on(view, offers, progress), statement.copies, apart, together)
            pattern = search.candidates.of_class[search.above(threshold, progress=progress)[1]].tolist()
    except GivenUpError as limit:
        raise GivenUpError(f"{where}: the search over patterns of {view.gpu.name} ended: {limit}") from None
    if pattern:
        names = [statement.instance.workloads[int(statement.member[c])].id for c in pattern]
        raise NotProvenError(f"{where}: a {view.gpu.name} with {', '.join(names)} is worth more than the GPU")


def _worth_of_whole(statement: Statement, dual: int, unit: int, group: int) -> int:
    """Return the worth of one whole workload of a class that slots may serve in parts."""
    if statement.serves_all:
        return dual
    own = float(statement.instance.workloads[int(statement.member[group])].rate_rps)
    return ceil(max(Fraction(own), Fraction(repr(own))) * unit - dual)


def offers_of(statement: Statement, duals: Sequence[int], unit: int, classes: Sequence[int]) -> list[SlotOffer]:
    """Return the rates at which slots may serve these classes, with the worth of each slot at the classes' duals."""
    offers = []
    whole = statement.instance.objective in (Objective.COST, Objective.CAPACITY) and not statement.by_parts
    for c in classes:
        dual = duals[c]
        for rate_rps, part in statement.rates(c):
            charged = part if statement.by_parts else Fraction(1)
            match statement.instance.objective:
                case Objective.GOODPUT:
                    own = Fraction(repr(float(statement.instance.workloads[int(statement.member[c])].rate_rps)))
                    # ``rate_rps`` is a rounded product; the larger of it and the exact product counts.
                    worth, per_rps = ceil(max(Fraction(rate_rps), own * part) * unit - charged * dual), 0.0
                case Objective.CAPACITY:
                    worth, per_rps = -dual, float(unit)
                case _:
                    worth, per_rps = ceil(part * dual), 0.0
            offers.append(SlotOffer(c, int(statement.member[c]), rate_rps, worth, per_rps, whole))
    return offers

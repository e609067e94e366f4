"""Bound of one relaxation from duals in whole numbers.

Let every class c of identical workloads have a dual ``p_c`` and every GPU type t a dual ``g_t``.

- ``cost``: if every content of a GPU of type t has ``sum p_c part <= price_t + g_t``, then every plan costs at least
  ``sum p_c copies_c - sum (g_t count_t if g_t > 0 else g_t least_t)``: add the inequality over the GPUs of the plan,
  and note that the contents cover every class. ``p_c`` is at least 0; ``g_t > 0`` needs a limit on the GPUs.
- ``goodput``, ``capacity``: if every content earns at most ``g_t >= 0`` beyond the charges ``p_c``, then every plan
  earns at most ``sum p_c copies_c + sum g_t count_t``. Under ``goodput`` a workload may be left out, so ``p_c >= 0``.
- ``scale``: no plan exists at rates times the bound, because it would cost more than the whole pool.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np

from bench.certificate.certificate import Leaf
from bench.certificate.conditions import Conditions
from bench.certificate.contents import SlotOffer, candidates_on, merged_tables
from bench.certificate.one_gpu import fits
from bench.certificate.search import SET_NODES, GpuSearch, Progress, TooHardError
from bench.certificate.statement import NotProvenError, Statement
from instances import Objective


def proven_bound(
    statement: Statement, leaf: Leaf, unit: int, branch: Conditions, where: str, progress: Progress
) -> Fraction | float:
    """Return the bound that duals prove for the plans of a branch; infinite if there are none.

    Raises
    ------
    NotProvenError
        If a dual has the wrong sign, or a content is worth more than its GPU.
    """
    _check_shape(statement, leaf, branch, where)
    for t in range(len(statement.views)):
        if branch.most[t] != 0:
            _check_contents(statement, leaf, unit, branch, t, where, progress)
    return bound_of(statement, leaf, unit, branch)


def bound_of(statement: Statement, leaf: Leaf, unit: int, branch: Conditions) -> Fraction | float:
    """Return the bound of duals that no content exceeds."""
    if statement.serves_all and any(_unservable(statement, c, branch) for c in range(len(statement.copies))):
        return inf if statement.minimised else -inf
    total = sum(p * int(n) for p, n in zip(leaf.workloads, statement.copies, strict=True))
    for g, most, least in zip(leaf.gpus, branch.most, branch.least, strict=True):
        if statement.minimised:
            total -= g * (most or 0) if g > 0 else g * least
        else:
            total += g * (most or 0)
    return Fraction(total, unit)


def _unservable(statement: Statement, group: int, branch: Conditions) -> bool:
    """Return whether no GPU serves a slot of a class, even alone."""
    nothing = [0] * len(statement.copies)
    for t, view in enumerate(statement.views):
        if (group, t) not in branch.barred and branch.most[t] != 0:
            candidates = candidates_on(view, offers_of(statement, nothing, 1, [group]))
            merged = merged_tables(view.tables)
            alone = (np.array([k], dtype=np.int64) for k in range(len(candidates.model)))
            if any(fits(view.tables, merged, candidates, chosen, SET_NODES) != 0 for chosen in alone):
                return False
    return True


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


def _check_contents(
    statement: Statement,
    leaf: Leaf,
    unit: int,
    branch: Conditions,
    t: int,
    where: str,
    progress: Progress,
) -> None:
    """Check that no content of a GPU of type t is worth more than its GPU."""
    view = statement.views[t]
    threshold = leaf.gpus[t] + (floor(statement.prices[t] * unit) if statement.minimised else 0)
    if threshold < 0:
        raise NotProvenError(f"{where}: an empty {view.gpu.name} is worth more than the GPU")
    apart, together = branch.matrices(len(statement.copies))
    allowed = [c for c in range(len(statement.copies)) if (c, t) not in branch.barred]
    offers = [
        # Without a resident of no worth, a content fits as well and is worth as much; a branch may need it.
        offer
        for offer in offers_of(statement, leaf.workloads, unit, allowed)
        if offer.worth > 0 or offer.per_rps > 0.0 or together[offer.of_class] >= 0
    ]
    search = GpuSearch(view.tables, candidates_on(view, offers), statement.copies, apart, together)
    try:
        _, content = search.above(threshold, progress=progress)
    except TooHardError:
        raise NotProvenError(f"{where}: the search over contents of {view.gpu.name} gave up") from None
    if content:
        names = [statement.instance.workloads[int(statement.member[search.candidates.of_class[k]])].id for k in content]
        raise NotProvenError(f"{where}: a {view.gpu.name} with {', '.join(names)} is worth more than the GPU")


def offers_of(statement: Statement, duals: Sequence[int], unit: int, classes: Sequence[int]) -> list[SlotOffer]:
    """Return what slots may serve of these classes, with their worths at the duals of the classes."""
    offers = []
    for c in classes:
        dual = duals[c]
        for rate_rps, part in statement.rates(c):
            charged = part if statement.by_parts else Fraction(1)
            match statement.instance.objective:
                case Objective.GOODPUT:
                    own = Fraction(repr(float(statement.instance.workloads[int(statement.member[c])].rate_rps)))
                    # The slot's rate is a rounded product; the larger of both counts.
                    worth, per_rps = ceil(max(Fraction(rate_rps), own * part) * unit - charged * dual), 0.0
                case Objective.CAPACITY:
                    worth, per_rps = -dual, float(unit)
                case _:
                    worth, per_rps = ceil(part * dual), 0.0
            offers.append(SlotOffer(c, int(statement.member[c]), rate_rps, worth, per_rps))
    return offers

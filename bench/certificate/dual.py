"""Bound of one relaxation from duals in whole numbers.

Let every class c of identical workloads have a dual ``p_c`` and every GPU type t a dual ``g_t``. ``copies_c`` is the
number of workloads of class c. ``count_t`` and ``least_t`` are the largest and the least number of GPUs of type t. A
pattern is the set of slots on one GPU, and ``part`` is the part of its workload that a slot serves. The duals are in
whole numbers: ``unit`` is the whole number that stands for one dollar per hour or one request per second.

The *charge* of a GPU is the limit on the worth of its pattern. If no pattern is worth more than the charge of its GPU,
the duals prove a bound.

- ``cost``: a pattern is worth ``sum p_c part``, and the charge is ``price_t + g_t``. Then every plan costs at least
  ``sum p_c copies_c - sum (g_t count_t if g_t > 0 else g_t least_t)``. This is the sum of the inequality over the GPUs
  of the plan, whose patterns cover every class. ``p_c`` is at least 0, and ``g_t > 0`` needs a limit on the GPUs.
- ``goodput``, ``capacity``: a pattern is worth its requests per second minus the duals ``p_c`` of its workloads, or
  minus ``p_c part`` in split plans. The charge is ``g_t >= 0``. Then every plan earns at most
  ``sum p_c copies_c + sum g_t count_t``. Under ``goodput`` a workload may be left out, so ``p_c >= 0``.
- ``scale``: as ``cost``, with all rates multiplied by the claimed bound. If every plan for these rates costs more than
  the whole pool, the pool cannot serve them.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
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

FEW_BATCHES = 8
"""Largest batch in the first test whether a class is feasible alone on a GPU; the second test has all batches."""


def proven_bound(
    statement: Statement, leaf: Leaf, unit: int, branch: Conditions, where: str, progress: Progress
) -> Fraction | float:
    """Return the bound that duals prove for the plans of a branch; infinite if the branch has no plans.

    Raises
    ------
    NotProvenError
        If a dual has the wrong sign, a pattern is worth more than the charge of its GPU, or the search gives up.
    """
    _check_duals(statement, leaf, branch, where)
    for gpu_type in range(len(statement.views)):
        if branch.most_gpus[gpu_type] != 0:
            _check_patterns(statement, leaf, unit, branch, gpu_type, where, progress)
    return bound_of(statement, leaf, unit, branch)


def bound_of(statement: Statement, leaf: Leaf, unit: int, branch: Conditions) -> Fraction | float:
    """Return the bound if no pattern is worth more than the charge of its GPU; infinite if there are no plans."""
    if statement.serves_all and _unservable(statement, branch):
        return inf if statement.minimised else -inf
    total = sum(dual * int(count) for dual, count in zip(leaf.workloads, statement.copies, strict=True))
    for dual, most_gpus, fewest_gpus in zip(leaf.gpus, branch.most_gpus, branch.fewest_gpus, strict=True):
        if statement.minimised:
            total -= dual * (most_gpus or 0) if dual > 0 else dual * fewest_gpus
        else:
            total += dual * (most_gpus or 0)
    return Fraction(total, unit)


def _unservable(statement: Statement, branch: Conditions) -> bool:
    """Return whether there is a class whose slots are feasible on no GPU type of the branch, even alone on a GPU."""
    unserved = set(range(len(statement.copies)))
    # Small batches serve nearly all classes, and computing their budgets is faster than computing those of all batches.
    largest_batches = (inf,) if statement.parts_of_any_size else (FEW_BATCHES, inf)
    for largest_batch, (gpu_type, view) in product(largest_batches, enumerate(statement.views)):
        tried_classes = (
            sorted(class_ for class_ in unserved if (class_, gpu_type) not in branch.barred)
            if branch.most_gpus[gpu_type] != 0
            else []
        )
        if statement.parts_of_any_size:
            divided = divided_on(view, dict.fromkeys(tried_classes, 1), statement.member, statement.copies)
            served_rows = [row for row in range(len(divided.model)) if served_alone(view.tables, divided, row)]
            unserved -= set(divided.of_class[served_rows].tolist())
        elif tried_classes:
            no_duals, merged = [0] * len(statement.copies), merged_tables(view.tables)
            offers = offers_of(statement, no_duals, 1, tried_classes)
            candidates = candidates_on(view, offers, largest_batch=largest_batch)
            for row, class_ in enumerate(candidates.of_class.tolist()):
                single_candidate = np.array([row], dtype=np.int64)
                # An undecided test (-1) counts as served, because an unserved class would make the bound infinite.
                if class_ in unserved and fits(view.tables, merged, candidates, single_candidate, SET_NODES) != 0:
                    unserved.remove(class_)
    return bool(unserved)


def _check_duals(statement: Statement, leaf: Leaf, branch: Conditions, where: str) -> None:
    """Check that there is a dual for each class and GPU type, and that the signs of the duals are permitted."""
    for kind, duals, expected in (
        ("classes of workloads", leaf.workloads, len(statement.copies)),
        ("GPU types", leaf.gpus, len(statement.views)),
    ):
        if len(duals) != expected:
            raise NotProvenError(f"{where}: {len(duals)} duals for {expected} {kind}")
    may_be_negative = statement.instance.objective is Objective.CAPACITY
    for class_, dual in enumerate(leaf.workloads):
        if dual < 0 and not may_be_negative:
            raise NotProvenError(f"{where}: the dual of class {class_} is negative")
    for gpu_type, dual in enumerate(leaf.gpus):
        name = statement.views[gpu_type].gpu.name
        if dual > 0 and branch.most_gpus[gpu_type] is None:
            raise NotProvenError(f"{where}: {name} has a dual, but no limit on its GPUs")
        if dual < 0 and not statement.minimised:
            raise NotProvenError(f"{where}: the dual of {name} is negative; its GPUs may stay idle")


def _check_patterns(
    statement: Statement,
    leaf: Leaf,
    unit: int,
    branch: Conditions,
    gpu_type: int,
    where: str,
    progress: Progress,
) -> None:
    """Check that no pattern of a GPU of this type is worth more than the charge of the GPU."""
    view = statement.views[gpu_type]
    charge = leaf.gpus[gpu_type] + (floor(statement.prices[gpu_type] * unit) if statement.minimised else 0)
    if charge < 0:
        raise NotProvenError(f"{where}: an empty {view.gpu.name} is worth more than the GPU")
    charge = min(charge, MOST_WORTH)  # the search refuses larger worths
    allowed_classes = [class_ for class_ in range(len(statement.copies)) if (class_, gpu_type) not in branch.barred]
    try:
        if statement.parts_of_any_size:
            worth = {
                class_: _worth_of_whole(statement, leaf.workloads[class_], unit, class_) for class_ in allowed_classes
            }
            divided = divided_on(view, worth, statement.member, statement.copies)
            pattern = DividedSearch(view.tables, divided).above(charge, progress)
        else:
            apart, group_of = branch.matrices(len(statement.copies))
            offers = [
                # Candidates without positive worth are left out: a pattern without them also fits and is worth at
                # least as much. Candidates of classes that must share a GPU with other classes stay.
                offer
                for offer in offers_of(statement, leaf.workloads, unit, allowed_classes)
                if offer.worth > 0 or offer.worth_per_rps > 0.0 or group_of[offer.of_class] >= 0
            ]
            search = GpuSearch(view.tables, candidates_on(view, offers, progress), statement.copies, apart, group_of)
            pattern = search.candidates.of_class[search.above(charge, progress=progress)[1]].tolist()
    except GivenUpError as limit:
        raise GivenUpError(f"{where}: the search over patterns of {view.gpu.name} ended: {limit}") from None
    if pattern:
        names = [statement.instance.workloads[int(statement.member[class_])].id for class_ in pattern]
        raise NotProvenError(f"{where}: a {view.gpu.name} with {', '.join(names)} is worth more than the GPU")


def _worth_of_whole(statement: Statement, dual: int, unit: int, class_: int) -> int:
    """Return the worth of one whole workload of a class that slots may serve in parts."""
    if statement.serves_all:
        return dual
    rate_rps = float(statement.instance.workloads[int(statement.member[class_])].rate_rps)
    return ceil(max(Fraction(rate_rps), Fraction(repr(rate_rps))) * unit - dual)


def offers_of(statement: Statement, duals: Sequence[int], unit: int, classes: Sequence[int]) -> list[SlotOffer]:
    """Return the rates at which slots may serve these classes, with the worth of each slot at the classes' duals."""
    offers = []
    budget_at_rate = statement.instance.objective in (Objective.COST, Objective.CAPACITY) and not statement.by_parts
    for class_ in classes:
        dual = duals[class_]
        for rate_rps, part in statement.rates(class_):
            part_of_dual = part if statement.by_parts else Fraction(1)
            match statement.instance.objective:
                case Objective.GOODPUT:
                    exact_rate_rps = Fraction(
                        repr(float(statement.instance.workloads[int(statement.member[class_])].rate_rps))
                    )
                    # ``rate_rps`` is a rounded product, so the larger of ``rate_rps`` and the exact product counts.
                    worth = ceil(max(Fraction(rate_rps), exact_rate_rps * part) * unit - part_of_dual * dual)
                    worth_per_rps = 0.0
                case Objective.CAPACITY:
                    worth, worth_per_rps = -dual, float(unit)
                case _:
                    worth, worth_per_rps = ceil(part * dual), 0.0
            workload = int(statement.member[class_])
            offers.append(SlotOffer(class_, workload, rate_rps, worth, worth_per_rps, budget_at_rate))
    return offers

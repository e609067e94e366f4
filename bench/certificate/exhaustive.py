"""Exhaustive proof for a few workloads: the best of all ways to divide them among the GPUs."""

from fractions import Fraction
from functools import cache
from math import inf, lcm

import numpy as np

from bench.certificate.certificate import MOST, unit_for
from bench.certificate.conditions import Conditions
from bench.certificate.dual import offers_of
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.patterns import Progress, candidates_on
from bench.certificate.search import GpuSearch
from bench.certificate.statement import Statement
from instances import Objective

MOST_WORKLOADS = 10
"""Largest number of workloads of an exhaustive proof."""

MOST_STATES = 1_000_000
"""Largest number of sets of waiting workloads and free GPUs whose best value is kept in memory."""


def exhaustive_bound(statement: Statement, progress: Progress) -> Fraction | float:
    """Return the value of the best plan, rounded towards a valid bound; infinite (or -infinite) if there is none.

    The plan puts the first workload that waits onto a GPU of some type, together with any others that wait; under
    ``goodput`` it may leave the first one out. All these choices are tried.

    Raises
    ------
    NotProvenError
        If there are too many workloads, or the search gives up.
    """
    count = int(statement.copies.sum())
    if count > MOST_WORKLOADS:
        raise NotProvenError(f"{count} workloads; an exhaustive proof takes at most {MOST_WORKLOADS}")
    if statement.by_parts:
        raise NotProvenError("an exhaustive proof does not cover plans that serve workloads in parts")
    rates = [w.rate_rps for w in statement.instance.workloads]
    goodput = statement.instance.objective is Objective.GOODPUT
    # ``unit`` stands for one dollar, so that all prices are whole numbers, or for one request per second.
    unit = lcm(*(price.denominator for price in statement.prices)) if statement.minimised else 10**9
    unit = unit_for(max(rates)) if goodput else unit
    prices = [int(price * unit) for price in statement.prices]
    worth = [_worths(statement, t, count, unit, progress) for t in range(len(statement.views))]
    worst = inf if statement.minimised else -inf

    @cache
    def best(waiting: int, free_gpus: tuple[int, ...]) -> float:
        if waiting == 0:
            return 0
        if best.cache_info().currsize > MOST_STATES:
            raise GivenUpError(f"an exhaustive proof over more than {MOST_STATES:,} sets of workloads and GPUs")
        first = waiting & -waiting
        rest = waiting ^ first
        best_value = worst if statement.serves_all else best(rest, free_gpus)
        others = rest
        while True:
            for t, free_of_type in enumerate(free_gpus):
                gpu_worth = worth[t].get(first | others)
                if free_of_type and gpu_worth is not None:
                    rest_value = best(rest ^ others, (*free_gpus[:t], free_of_type - 1, *free_gpus[t + 1 :]))
                    if abs(rest_value) < inf:
                        best_value = (
                            min(best_value, prices[t] + rest_value)
                            if statement.minimised
                            else max(best_value, gpu_worth + rest_value)
                        )
            if others == 0:
                return best_value
            others = (others - 1) & rest

    limits = tuple(count if limit is None else min(limit, count) for limit in statement.limits)
    value = best(2**count - 1, limits)
    return Fraction(int(value), unit) if abs(value) < inf else value


def _worths(statement: Statement, t: int, count: int, unit: int, progress: Progress) -> dict[int, int]:
    """Return the largest worth of every set of workloads that fits on a GPU of type t, by set of positions."""
    view = statement.views[t]
    groups = np.repeat(np.arange(len(statement.copies)), statement.copies).tolist()
    offers = offers_of(statement, [0] * len(statement.copies), unit, range(len(statement.copies)))
    candidates = candidates_on(view, offers, progress)
    conditions = Conditions.root(statement).matrices(len(statement.copies))
    worth_of: dict[int, int] = {}
    for members in range(1, 2**count):
        subsets = [members ^ (1 << w) for w in range(count) if members >> w & 1]
        size = len(subsets)
        if size > view.tables.most_residents or (size > 1 and any(subset not in worth_of for subset in subsets)):
            continue  # a set fits only if all its subsets fit
        copies = np.bincount([groups[w] for w in range(count) if members >> w & 1], minlength=len(statement.copies))
        search = GpuSearch(view.tables, candidates.of_classes(copies > 0), copies, *conditions)
        try:
            sizes = range(size, size + 1)
            worth, pattern = search.above(-MOST, sizes, best=True, progress=lambda part: progress(part / 2**count))
        except GivenUpError as limit:
            raise GivenUpError(f"the search over patterns of {view.gpu.name} ended: {limit}") from None
        if pattern:
            worth_of[members] = worth
    return worth_of

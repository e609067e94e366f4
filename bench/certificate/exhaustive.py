"""Exhaustive proof for a few workloads: the best of all ways to divide them among the GPUs."""

from fractions import Fraction
from functools import cache
from math import inf, lcm

import numpy as np

from bench.certificate.certificate import LARGEST_WHOLE, unit_for
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
"""Largest number of states whose best value is kept in memory. A state is the waiting workloads and the free GPUs."""


def exhaustive_bound(statement: Statement, progress: Progress) -> Fraction | float:
    """Return the value of the best plan, rounded towards a valid bound; infinite (or -infinite) if there is none.

    The search puts the first waiting workload on a GPU of each type, together with every set of other waiting
    workloads. Under ``goodput`` it also leaves the first waiting workload out.

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
    worths_by_type = [
        pattern_worths(statement, gpu_type, count, unit, progress) for gpu_type in range(len(statement.views))
    ]
    no_plan = inf if statement.minimised else -inf

    @cache
    def best_value_of(waiting: int, free_gpus: tuple[int, ...]) -> float:
        """Return the best value for the waiting workloads, a bit mask, on the free GPUs of each type."""
        if waiting == 0:
            return 0
        if best_value_of.cache_info().currsize > MOST_STATES:
            raise GivenUpError(f"an exhaustive proof over more than {MOST_STATES:,} sets of workloads and GPUs")
        first_bit = waiting & -waiting
        rest_after_first = waiting ^ first_bit
        best_value = no_plan if statement.serves_all else best_value_of(rest_after_first, free_gpus)
        companions = rest_after_first
        while True:
            for gpu_type, free_of_type in enumerate(free_gpus):
                worth_on_gpu = worths_by_type[gpu_type].get(first_bit | companions)
                if free_of_type and worth_on_gpu is not None:
                    rest_value = best_value_of(
                        rest_after_first ^ companions,
                        (*free_gpus[:gpu_type], free_of_type - 1, *free_gpus[gpu_type + 1 :]),
                    )
                    if abs(rest_value) < inf:
                        best_value = (
                            min(best_value, prices[gpu_type] + rest_value)
                            if statement.minimised
                            else max(best_value, worth_on_gpu + rest_value)
                        )
            if companions == 0:
                return best_value
            companions = (companions - 1) & rest_after_first

    limits = tuple(count if limit is None else min(limit, count) for limit in statement.limits)
    value = best_value_of(2**count - 1, limits)
    return Fraction(int(value), unit) if abs(value) < inf else value


def pattern_worths(statement: Statement, gpu_type: int, count: int, unit: int, progress: Progress) -> dict[int, int]:
    """Return the largest worth of every set of workloads that fits on a GPU of a type.

    The key of a set is a bit mask: bit i is set if the set contains workload i. Workloads are numbered in the order of
    their classes.
    """
    view = statement.views[gpu_type]
    class_of = np.repeat(np.arange(len(statement.copies)), statement.copies).tolist()
    offers = offers_of(statement, [0] * len(statement.copies), unit, range(len(statement.copies)))
    candidates = candidates_on(view, offers, progress)
    conditions = Conditions.root(statement).matrices(len(statement.copies))
    worth_by_set: dict[int, int] = {}
    for workload_set in range(1, 2**count):
        smaller_sets = [workload_set ^ (1 << number) for number in range(count) if workload_set >> number & 1]
        size = len(smaller_sets)
        if size > view.tables.most_residents or (
            size > 1 and any(smaller_set not in worth_by_set for smaller_set in smaller_sets)
        ):
            continue  # a set fits only if all its subsets fit
        copies = np.bincount(
            [class_of[number] for number in range(count) if workload_set >> number & 1],
            minlength=len(statement.copies),
        )
        search = GpuSearch(view.tables, candidates.of_classes(copies > 0), copies, *conditions)
        try:
            only_size = range(size, size + 1)
            worth, pattern = search.above(
                -LARGEST_WHOLE, only_size, best=True, progress=lambda fraction: progress(fraction / 2**count)
            )
        except GivenUpError as limit:
            raise GivenUpError(f"the search over patterns of {view.gpu.name} ended: {limit}") from None
        if pattern:
            worth_by_set[workload_set] = worth
    return worth_by_set

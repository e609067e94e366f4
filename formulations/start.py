"""Initial plan of an exact search: the given plan, or first fit with the one-GPU kernel."""

import time
from collections.abc import Sequence

import numpy as np

from formulations.problem import Group, Problem
from formulations.rates import Rates
from formulations.sized_choices import SizedChoices
from instances import Plan
from instances.one_gpu import Resident

BATCHES_TRIED = 3
"""Number of (batch, rate) pairs of a workload that first fit tries per step: those of the fewest units."""

RATE_TOLERANCE = 1e-9
"""Relative difference below which two rates count as equal."""


def first_fit(problem: Problem, order: Sequence[int], price: Sequence[float], deadline: float) -> list[Group]:
    """Place workloads one by one on the first GPU that has room; leave out those that fit nowhere.

    The highest rate is tried on every GPU, a new one included, before a lower rate. A new GPU is of the type on which
    the workload's share costs least.

    Parameters
    ----------
    problem
        The GPU types and the configurations.
    order
        Workload positions.
    price
        Price of a GPU of each offer.
    deadline
        ``time.monotonic()`` value after which no further workload is placed.
    """
    offers = problem.offers
    groups: list[Group] = []
    free = [offer.count for offer in offers]
    for w in order:
        if time.monotonic() >= deadline:
            break
        tried = [_to_try(offer.choices[w]) for offer in offers]
        cheapest = sorted(range(len(offers)), key=lambda o: price[o] * offers[o].least_fraction(w))
        for step in sorted({step for pairs in tried for step in pairs}, reverse=True):
            joined = _join(problem, groups, w, [pairs.get(step, []) for pairs in tried])
            opened = next((o for o in cheapest if free[o] and step in tried[o]), None)
            if joined is not None:
                groups[joined[0]] = joined[1]
            elif opened is not None:
                groups.append(Group(opened, (Resident(w, *tried[opened][step][0]),)))
                free[opened] -= 1
            else:
                continue
            break
    return groups


def _to_try(choices: SizedChoices) -> dict[int, list[tuple[int, float]]]:
    """Return the pairs of batch and rate by step, those of the fewest units first."""
    found: dict[int, list[tuple[int, float]]] = {}
    for k in np.argsort(choices.units, kind="stable"):
        pairs = found.setdefault(int(choices.step[k]), [])
        pair = (int(choices.batch[k]), float(choices.rate_rps[k]))
        if pair not in pairs and len(pairs) < BATCHES_TRIED:
            pairs.append(pair)
    return found


def _join(
    problem: Problem, groups: Sequence[Group], workload: int, pairs: Sequence[Sequence[tuple[int, float]]]
) -> tuple[int, Group] | None:
    """Return the index of the first GPU that has room for the workload at one of its pairs, and the enlarged group."""
    for g, group in enumerate(groups):
        for batch, rate in pairs[group.offer]:
            grown = Group(group.offer, (*group.residents, Resident(workload, batch, rate)))
            if problem.fits(grown) is not None:
                return g, grown
    return None


def groups_of(plan: Plan, problem: Problem, rates: Sequence[Rates]) -> list[Group]:
    """Return the GPUs of ``plan`` as groups; GPUs that are infeasible or not of class ``spatial`` are left out.

    A rate that is not among ``rates`` is rounded down to the next one; without a lower rate the slot is left out.
    Also left out are workloads that an earlier GPU serves, and GPUs beyond the size of the pool.
    """
    found: list[Group] = []
    seen: set[int] = set()
    free = [offer.count for offer in problem.offers]
    position = {offer.view.gpu.name: o for o, offer in enumerate(problem.offers)}
    for gpu in plan.gpus:
        o = position.get(gpu.type)
        if o is None or not free[o] or any(len(gpulet.slots) > 1 or gpulet.duty_cycle_ms for gpulet in gpu.gpulets):
            continue
        view, residents = problem.offers[o].view, []
        for slot in (slot for gpulet in gpu.gpulets for slot in gpulet.slots):
            w = problem.instance.workload_index.get(slot.workload)
            if w is None or w in seen or slot.batch > view.tables.max_batch[view.model[w]]:
                continue
            lower = rates[w].rate_rps[rates[w].rate_rps <= slot.rate_rps * (1.0 + RATE_TOLERANCE)]
            if len(lower):
                residents.append(Resident(w, slot.batch, float(lower.max())))
                seen.add(w)
        group = Group(o, tuple(residents))
        if residents and problem.fits(group) is not None:
            found.append(group)
            free[o] -= 1
    return found

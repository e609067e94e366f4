"""Closing of the gap between plan and bound: enumeration of the contents of a GPU, then an integer choice of them.

The bound of column generation allows fractions of GPUs, so for a few GPUs it is far from any plan.
"""

import math
from typing import NamedTuple

import numpy as np

from formulations.colgen.claims import pool_price
from formulations.colgen.clock import spend_nodes
from formulations.colgen.column_generation import best_factor
from formulations.colgen.temporal.contents import pattern_of
from formulations.colgen.temporal.enumeration import (
    NUMBERS_PER_GPULET,
    UndominatedList,
    combine,
    empty_gpu_list,
    insert_undominated,
    list_gpulets,
)
from formulations.colgen.temporal.every_content import contents_worth_at_least
from formulations.colgen.temporal.generation import Column, TemporalGeneration
from formulations.colgen.temporal.gpulet_positions import Worth
from formulations.colgen.temporal.pricer import PositionBounds
from formulations.colgen.temporal.search import PlanSearch
from formulations.rounding import sum_rounded_down
from instances import Objective
from instances.arrays import Floats, Ints
from instances.costs import cost_step
from instances.one_gpu import Pattern

STEPS = (0.004, 0.001, 0.00025)
"""Steps of the grids of rates, as fractions of the workloads' rates; under ``scale``, of the rates that are served."""

MOST_GPULETS = 20_000
"""Largest number of undominated gpulets of one position; with more, the gap is not closed."""

MOST_GPUS = 20_000
"""Largest number of undominated contents of a GPU; with more, the gap is not closed."""

MOST_UNDER_WORK_LIMIT = 3_500
"""Largest number of contents if the run has a work limit; with more, the gap is not closed.

With more contents the integer solver takes long in its root node, which counts as only one node of work.
"""

LISTING_NODES = 2_000
"""Work of listing the gpulets of a position, in nodes."""

INTEGER_TIME_FRACTION = 0.4
"""Fraction of the remaining time that one integer choice may take."""

INTEGER_TOLERANCE = 1e-6
"""Relative allowance for the tolerances of the integer solver."""


def can_list(generation: TemporalGeneration) -> bool:
    """Return whether contents can be listed on a grid.

    This needs one GPU type, at most two gpulets per GPU, and ``cost``, ``goodput`` or ``scale``.
    """
    pricers, objective = generation.pricers, generation.instance.objective
    return (
        len(pricers) == 1
        and pricers[0].tables.most_residents <= 2
        and objective in (Objective.COST, Objective.GOODPUT, Objective.SCALE)
    )


def close(search: PlanSearch) -> None:
    """Improve the bound and the plan until the plan is proven optimal, the contents are too many or the time is over.

    If a better plan has few possible contents, each is tried with its exact rates. Otherwise they are listed with rates
    on finer and finer grids.
    """
    if _close_exactly(search) or not can_list(search.generation):
        return
    for fraction in STEPS:
        improved = search.plan is not None
        while improved and search.run.remaining_s > 0.0 and not search.proven():
            before = search.value
            if not _close_on_grid(search, fraction):
                return
            improved = search.value != before


def _close_exactly(search: PlanSearch) -> bool:
    """Try every content that a better plan can have; return whether none is left untried."""
    generation, run = search.generation, search.run
    threshold = _threshold(search)
    if threshold is None or threshold.excluded:
        return threshold is not None
    worth = generation.worth_at(threshold.dual)
    listed: list[Pattern] = []
    for pool, pricer in enumerate(generation.pricers):
        contents = contents_worth_at_least(pricer, worth, float(threshold.least[pool]))
        if contents is None or run.remaining_s <= 0.0:
            return False
        listed += contents
    for content in listed:
        search.add(content)
    if not all(content in search.known_contents for content in listed):
        return False  # ``search.add`` sums times in another order: at the edge of an SLO, its rounding may differ
    _choose(search, [search.known_contents[content][0] for content in listed], listed, 0.0)
    return True


def _close_on_grid(search: PlanSearch, fraction: float) -> bool:
    """Bound the plans better than the best known one, with rates on one grid.

    Return ``False`` if the contents are too many, the time is over, or there is no threshold for the list.
    """
    generation = search.generation
    threshold = _threshold(search)
    if threshold is None or threshold.excluded:
        return threshold is not None
    worth = generation.worth_at(threshold.dual)
    scale = search.value if search.instance.objective is Objective.SCALE else 1.0
    grid = worth._replace(step_rps=fraction * scale * generation.rate_rps)
    listed = _listed(search, grid, float(threshold.least[0]))
    has_work_limit = search.run.work_limit is not None
    if listed is None or (has_work_limit and listed.size[0] > MOST_UNDER_WORK_LIMIT):
        return False
    contents = [_pattern(numbers) for numbers in listed.content[: int(listed.size[0])]]
    for content in contents:
        search.add(content)
    served_rps = listed.amounts[: len(contents)] * grid.step_rps
    _choose(search, [(0, generation.amounts(content_rps)) for content_rps in served_rps], contents, fraction / 2.0)
    search.choose_among_known(search.run.remaining_s * INTEGER_TIME_FRACTION, fraction / 8.0)
    search.polish(search.run.deadline)
    return True


def _choose(search: PlanSearch, columns: list[Column], contents: list[Pattern], tolerance: float) -> None:
    """Choose an integer number of each content; improve plan and bound by the result."""
    generation, plan_value = search.generation, search.value
    bound = search.choose(contents, columns, INTEGER_TIME_FRACTION * search.run.remaining_s, tolerance)
    if math.isfinite(bound):
        generation.tighten(bound if generation.minimised else -bound, plan_value, INTEGER_TOLERANCE)


class _Threshold(NamedTuple):
    """Least worth of a GPU in a plan better than the best known one, at the duals of the bound.

    Attributes
    ----------
    dual
        Those duals, shape (workloads,).
    least
        Least worth on each GPU type, rounded down, shape (GPU types,).
    excluded
        Whether the bound proves that there is no better plan.
    """

    dual: Floats
    least: Floats
    excluded: bool


def _threshold(search: PlanSearch) -> _Threshold | None:
    """Return the threshold; ``None`` if there is no bound yet, or under ``cost`` no limit on the cost."""
    generation, objective = search.generation, search.instance.objective
    if generation.stability_centre is None:
        return None
    dual = generation.stability_centre.workload_dual[: len(generation.rate_rps)]
    best = np.array([priced.bound for priced in generation.priced(dual, generation.most_served(), exact_turns=True)])
    if not generation.minimised:
        target = search.value if search.plan is not None else 0.0
        per_unit = math.fsum(np.maximum(dual, 0.0)) if objective is Objective.SCALE else 1.0
        bound = generation.dual_bound(dual, best)
        least = [sum_rounded_down([worth, -bound * per_unit, target * per_unit]) for worth in best.tolist()]
        return _Threshold(dual, np.array(least), bound < target)
    target = pool_price(search.instance) if search.plan is None else search.value - cost_step(search.instance)
    factor, bound = best_factor(dual, np.ones(len(dual)), best, generation.price, generation.count)
    if not math.isfinite(target) or factor <= 0.0:
        return None
    surplus = np.maximum(0.0, factor * best - generation.price)
    terms = zip(generation.price.tolist(), surplus.tolist(), strict=True)
    least = [sum_rounded_down([price, extra_worth, -target, bound]) / factor for price, extra_worth in terms]
    return _Threshold(dual, np.array(least), bound > target)


def _listed(search: PlanSearch, grid: Worth, least: float) -> UndominatedList | None:
    """List the GPUs worth at least ``least``; ``None`` if they are too many or the time is over."""
    pricer, run = search.generation.pricers[0], search.run
    neighbours, turns = pricer.adjacency, search.generation.slots > 1
    bounds = PositionBounds(pricer, grid)
    workloads = len(grid.per_rps)
    gpus, first_gpulets, second_gpulets = (
        empty_gpu_list(most, workloads) for most in (MOST_GPUS, MOST_GPULETS, MOST_GPULETS)
    )

    def list_at(position_number: int, at_least: float, listed: UndominatedList) -> bool:
        spend_nodes(LISTING_NODES)
        position = neighbours.positions[position_number]
        return bool(list_gpulets(pricer.tables, pricer.demand, position, grid, at_least, turns, listed))

    for p in neighbours.alone.tolist():
        if not list_at(p, least, first_gpulets) or run.remaining_s <= 0.0:
            return None
        for k in range(int(first_gpulets.size[0])):
            if not insert_undominated(gpus, first_gpulets.amounts[k], first_gpulets.worth[k], first_gpulets.content[k]):
                return None
    beside = neighbours.beside
    for i, j in zip(*np.nonzero((beside >= 0) & (beside.T >= 0)), strict=True):
        p, q = int(beside[i, j]), int(beside[j, i])
        if i > j or bounds.value[p] + bounds.value[q] < least:
            continue
        bounds.bound_turns(p)
        bounds.bound_turns(q)
        if bounds.value[p] + bounds.value[q] < least:
            continue
        if not list_at(p, least - bounds.value[q], first_gpulets):
            return None
        if not list_at(q, least - bounds.value[p], second_gpulets):
            return None
        if not combine(grid, first_gpulets, second_gpulets, least, gpus) or run.remaining_s <= 0.0:
            return None
    return gpus


def _pattern(numbers: Ints) -> Pattern:
    """Return the pattern of one entry of a list of GPUs."""
    gpulets = numbers.reshape(2, NUMBERS_PER_GPULET).tolist()
    return pattern_of(0, ((units, zip(slots[::2], slots[1::2], strict=True)) for units, *slots in gpulets))

"""Duals of a relaxation in which a slot needs its least share alone on the GPU, and no GPU has other limits.

On every GPU the shares sum to at most one GPU, and no slot meets its budget at a share below its least share alone. So
duals ``q_c`` and ``g_t`` with ``q_c + s g_t >= w`` for every slot of class c with the share ``s`` of a GPU of type t
and the worth ``w`` are duals of the certificate's relaxation: no pattern is worth more than its GPU. They are weak, but
need no search, so that the largest instances have a bound. Under ``cost`` a slot is worth minus the price of its share.
"""

from collections.abc import Sequence
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from bench.certificate.certificate import BoundClaim
from bench.certificate.dual import offers_of
from bench.certificate.failures import NotProvenError, check_memory
from bench.certificate.knapsack import Alternatives
from bench.certificate.one_gpu import alternatives_of_sets, alternatives_of_slots
from bench.certificate.patterns import Candidates, Progress, candidates_on, ignore, merged_tables
from bench.certificate.statement import Statement, classes
from instances import SCALE_STEP, Instance, Objective
from instances.arrays import Floats, Ints
from instances.view import View

UNIT = 10**6
"""Whole number that stands for 1 request per second in the worths of the checker's alternatives."""

SCALE_MARGIN = 1e-6
"""Relative amount by which the cost of serving a multiple of the rates must exceed the price of the pool.

Only then do the duals exclude this multiple.
"""

GROWTH, MOST_SCALE, PRECISION = 1.5, 1e6, 0.02
"""Factor on the multiple until it is excluded, largest multiple tried, and precision of the least excluded multiple."""

MOST_WORTHS = 100.0
"""Largest dual of a GPU type in the linear program, in multiples of the largest worth of a slot."""

MOST_BUDGETS = 100_000
"""Largest number of slots whose budgets depend on the share: each budget takes about a millisecond."""


class Slots(NamedTuple):
    """Slots that a plan may have; each array has shape (slots,).

    ``of_class`` and ``gpu_type`` say whom a slot serves and where; ``share`` is a fraction of the GPU.
    """

    of_class: Ints
    gpu_type: Ints
    share: Floats
    worth: Floats


def duals_of_least_shares(
    instance: Instance, least_scale: float = 0.0, progress: Progress = ignore
) -> tuple[list[dict[str, Any]], float | None]:
    """Return duals as a row stores them; under ``scale``, also about the least multiple of the rates that they exclude.

    Parameters
    ----------
    least_scale
        Multiple of the rates that a plan serves.
    progress
        Function that is called with 0 between steps; it may raise to end them.

    Raises
    ------
    NotProvenError
        If the objective has no such bound, or the duals exclude no multiple of the rates.
    """
    if instance.objective is not Objective.SCALE:
        return [_node(_statement(instance, 0.0), progress)[0]], None

    def node_excluding(steps: int) -> dict[str, Any] | None:
        statement = _statement(instance, steps * SCALE_STEP)
        node, cost = _node(statement, progress)
        return node if cost > float(statement.pool_price) * (1.0 + SCALE_MARGIN) else None

    served = ceil(least_scale / SCALE_STEP - SCALE_MARGIN)
    steps = max(1, ceil(served * GROWTH))
    while (node := node_excluding(steps)) is None:
        served, steps = steps, ceil(steps * GROWTH)
        if steps * SCALE_STEP > MOST_SCALE:
            raise NotProvenError("the least shares exclude no multiple of the rates")
    # Each multiple needs budgets of its own, so the search ends at a relative precision.
    while steps - served > max(1.0, PRECISION * steps):
        middle = (served + steps) // 2
        if (better := node_excluding(middle)) is None:
            served = middle
        else:
            node, steps = better, middle
    return [node], steps * SCALE_STEP


def _statement(instance: Instance, scale: float) -> Statement:
    claim = {"bound": f"{scale:.3f}", "plan_class": "spatial", "parts": None}
    return Statement.of(instance, BoundClaim.model_validate(claim))


def _node(statement: Statement, progress: Progress) -> tuple[dict[str, Any], float]:
    """Return the best duals of the relaxation, and their bound; a cost is infinite if some workload has no slot."""
    dual_classes = _classes_with_duals(statement)
    slots_by_type = [_slots_on(statement, gpu_type, dual_classes, progress) for gpu_type in range(len(statement.views))]
    slots = Slots(*(np.concatenate(arrays) for arrays in zip(*slots_by_type, strict=True)))
    counts = np.array([inf if limit is None else float(limit) for limit in statement.limits])
    prices = np.array([float(price) for price in statement.prices]) if statement.minimised else np.zeros(len(counts))
    gpu_duals = _gpu_duals(statement, slots, counts)
    # The duals of the classes follow from those of the GPUs, free of the solver's tolerance.
    class_duals = np.full(len(statement.copies), 0.0 if statement.instance.objective is Objective.GOODPUT else -inf)
    np.maximum.at(class_duals, slots.of_class, slots.worth - slots.share * gpu_duals[slots.gpu_type])
    unserved = np.isneginf(class_duals)
    class_duals[unserved] = 0.0
    limited = np.isfinite(counts)
    value = float(class_duals @ statement.copies + gpu_duals[limited] @ counts[limited])
    signed = -class_duals if statement.minimised else class_duals
    node = {
        "workloads": signed[classes(statement.instance)].tolist(),
        "gpus": (gpu_duals + prices).tolist(),
    }
    if statement.minimised:
        value = inf if unserved[dual_classes].any() else -value
    return node, value


def _gpu_duals(statement: Statement, slots: Slots, counts: Floats) -> Floats:
    """Return the duals of the GPU types at the optimum of the relaxation; 0 for types without a limit."""
    class_count, type_count = len(statement.copies), len(counts)
    rows = np.arange(len(slots.share))
    matrix = coo_array(
        (
            np.concatenate([np.ones(len(rows)), slots.share]),
            (np.tile(rows, 2), np.concatenate([slots.of_class, class_count + slots.gpu_type])),
        ),
        shape=(len(rows), class_count + type_count),
    )
    served = np.isin(np.arange(class_count), slots.of_class)
    # If the pool is too small, there is no largest dual of its GPUs.
    largest = MOST_WORTHS * float(np.abs(slots.worth).max(initial=0.0))
    lowest = np.where(served, 0.0 if statement.instance.objective is Objective.GOODPUT else -inf, 0.0)
    highest = np.concatenate([np.where(served, inf, 0.0), np.where(np.isfinite(counts), largest, 0.0)])
    solution = milp(  # without integers, so a linear program
        np.concatenate([statement.copies, np.where(np.isfinite(counts), counts, 0.0)]),
        constraints=LinearConstraint(matrix.tocsr(), lb=slots.worth),
        bounds=Bounds(np.concatenate([lowest, np.zeros(type_count)]), highest),
    )
    if solution.x is None:
        raise NotProvenError(f"the relaxation by least shares has no solution: {solution.message}")
    return np.where(np.isfinite(counts), np.maximum(solution.x[class_count:], 0.0), 0.0)


def _classes_with_duals(statement: Statement) -> list[int]:
    """Return the classes whose duals the relaxation determines, those of the highest rates first.

    The other classes, which exist only under ``cost`` and ``scale``, have the dual 0. The checker computes no budgets
    of such a class.
    """
    rates_rps = np.array([statement.instance.workloads[w].rate_rps for w in statement.member])
    by_rate = np.argsort(-rates_rps * statement.copies, kind="stable")
    if not (statement.minimised and statement.instance.slo_rule.by_share):
        return by_rate.tolist()
    batches = sum(view.tables.max_batch[view.model[statement.member[by_rate]]] for view in statement.views)
    return by_rate[np.cumsum(batches) <= MOST_BUDGETS].tolist()


def _slots_on(statement: Statement, gpu_type: int, dual_classes: Sequence[int], progress: Progress) -> Slots:
    """Return the slots on one GPU type: for each class and share, the slot of the largest worth."""
    view = statement.views[gpu_type]
    whole_gpu = view.tables.share_units
    offers = offers_of(statement, [0] * len(statement.copies), UNIT, sorted(dual_classes))
    candidates = candidates_on(view, offers, progress)
    alternatives = _alternatives_alone(view, candidates, statement.instance.objective is Objective.CAPACITY)
    # A key is a class and a share in one number.
    keys = candidates.of_class[alternatives.candidate] * (whole_gpu + 1) + alternatives.units
    best_first = np.lexsort([-alternatives.worth, keys])
    keys, first = np.unique(keys[best_first], return_index=True)
    share = (keys % (whole_gpu + 1)) / whole_gpu
    worth = alternatives.worth[best_first][first] / UNIT
    if statement.minimised:
        worth = -share * float(statement.prices[gpu_type])
    return Slots(keys // (whole_gpu + 1), np.full(len(keys), gpu_type), share, worth)


def _alternatives_alone(view: View, candidates: Candidates, by_slots: bool) -> Alternatives:
    """Return the alternatives of a GPU with one resident; for ``by_slots``, see ``bench.certificate.search``."""
    most = len(candidates.batch) * len(view.tables.permitted) if by_slots else len(candidates.model)
    check_memory("the slots of a relaxation", len(Alternatives._fields), most)
    buffer = Alternatives(*np.empty((len(Alternatives._fields), most), dtype=np.int64))
    merged = merged_tables(view.tables)
    if by_slots:
        count = alternatives_of_slots(view.tables, merged, candidates, 1, 0.0, 0.0, buffer)
    else:
        count = alternatives_of_sets(merged, candidates, 1, 0.0, 0.0, buffer)
    return Alternatives(*(column[:count] for column in buffer))

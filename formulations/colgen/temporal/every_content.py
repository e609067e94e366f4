"""Exact enumeration of the undominated contents of a GPU that reach a worth, for small GPUs and few workloads.

Unlike ``enumeration``, it takes exact rates and any number of gpulets.
"""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.temporal.contents import (
    GpuContents,
    contents_of,
    empty_contents,
    pattern_of,
    plannable_rps,
    worth_of,
)
from formulations.colgen.temporal.enumeration import UndominatedList, empty_list, insert_undominated
from formulations.colgen.temporal.gpulet_positions import SLOTS, Worth
from formulations.colgen.temporal.pricer import TemporalPricer
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.one_gpu import Pattern
from instances.tables import Tables

MOST_GPULETS_TRIED = 20_000
"""Largest number of candidate gpulets."""

MOST_TRIED = 1_000_000
"""Largest number of contents tried."""

MOST_LISTED = 20_000
"""Largest number of undominated contents."""


class CandidateGpulets(NamedTuple):
    """Gpulets to choose from, by rising share.

    Attributes
    ----------
    units, workload, batch
        Share and slots of each, as in ``GpuContents``, shapes (gpulets,) and (gpulets, 3).
    most_worth
        Upper bound on the worth of gpulets that together take at most a number of share units, shape (units + 1,).
    """

    units: Ints
    workload: Ints
    batch: Ints
    most_worth: Floats


def contents_worth_at_least(pricer: TemporalPricer, worth: Worth, least_worth: float) -> list[Pattern] | None:
    """Return the undominated contents of a GPU worth at least ``least_worth``.

    Return ``None`` if a limit stops the enumeration, or if no gpulet is feasible.
    """
    tables, demand = pricer.tables, pricer.demand
    candidates = _candidates(pricer, worth)
    if candidates is None:
        return None
    most_gpulets = min(tables.most_residents, int(tables.share_units // tables.permitted[0]))
    undominated = empty_list(MOST_LISTED, 2 * len(worth.per_rps) + 1, most_gpulets)
    if not _search(tables, demand, worth, candidates, least_worth, empty_contents(most_gpulets), undominated):
        return None
    return [_pattern(pricer.pool, candidates, row) for row in undominated.content[: int(undominated.size[0])].tolist()]


def _candidates(pricer: TemporalPricer, worth: Worth) -> CandidateGpulets | None:
    """Return the gpulets that are feasible alone; ``None`` if there are none or too many."""
    tables = pricer.tables
    batches = [
        (w, b) for w, m in enumerate(pricer.demand.model.tolist()) for b in range(1, int(tables.max_batch[m]) + 1)
    ]
    rows: list[tuple[int, tuple[tuple[int, int], ...], float]] = []
    for units in tables.permitted.tolist():
        for slots in range(1, pricer.slots + 1):
            # Up to 3 slots have at most 6 orders, which make one combination.
            if len(tables.permitted) * len(batches) ** slots > 6 * MOST_GPULETS_TRIED:
                return None
            for chosen in combinations_with_replacement(batches, slots):
                alone = contents_of(pattern_of(0, [(units, chosen)]))
                value = worth_of(pricer.demand, worth, alone)
                # An infeasible gpulet is worth -inf. A plan may need gpulets that are worth 0.
                if math.isfinite(value):
                    rows.append((units, chosen, value))
    if not rows or len(rows) > MOST_GPULETS_TRIED:
        return None
    workload, batch = (np.full((len(rows), SLOTS), fill, dtype=np.int64) for fill in (-1, 0))
    most_worth = np.zeros(tables.share_units + 1)
    for k, (_, chosen, _) in enumerate(rows):
        for s, (w, b) in enumerate(chosen):
            workload[k, s], batch[k, s] = w, b
    for total in range(1, tables.share_units + 1):
        best = max((value + most_worth[total - units] for units, _, value in rows if units <= total), default=0.0)
        most_worth[total] = max(most_worth[total - 1], best)
    return CandidateGpulets(np.array([units for units, _, _ in rows]), workload, batch, most_worth)


@compiled
def _search(
    tables: Tables,
    demand: DemandOnGpu,
    worth: Worth,
    candidates: CandidateGpulets,
    least_worth: float,
    contents: GpuContents,
    undominated: UndominatedList,
) -> bool:
    """Try all combinations of candidates, depth first; return whether no limit stopped the search.

    More gpulets only lengthen the times of the others, so an infeasible content stays infeasible with more.
    """
    most_gpulets, candidate_count = len(contents.units), len(candidates.units)
    chosen = np.full(most_gpulets, -1, dtype=np.int64)
    depth, free_units, tried = 0, tables.share_units, 0
    amounts = np.zeros(2 * len(worth.per_rps) + 1)
    while depth >= 0:
        if chosen[depth] >= 0:
            free_units += contents.units[depth]
            contents.units[depth] = 0
        first = chosen[depth - 1] if depth > 0 else 0
        k = max(chosen[depth] + 1, first)
        added = False
        while k < candidate_count and candidates.units[k] <= free_units:
            tried += 1
            if tried > MOST_TRIED:
                return False
            contents.units[depth] = candidates.units[k]
            contents.workload[depth], contents.batch[depth] = candidates.workload[k], candidates.batch[k]
            value = worth_of(demand, worth, contents)
            if value + candidates.most_worth[free_units - candidates.units[k]] >= least_worth:
                chosen[depth] = k
                if value >= least_worth:
                    _write_amounts(worth, contents, depth + 1, amounts)
                    if not insert_undominated(undominated, amounts, 0.0, chosen):
                        return False
                free_units -= candidates.units[k]
                added = True
                break
            contents.units[depth] = 0
            k += 1
        if added and depth + 1 < most_gpulets:
            depth += 1
            chosen[depth] = -1
        elif not added:
            chosen[depth] = -1
            depth -= 1
    return True


@compiled
def _write_amounts(worth: Worth, contents: GpuContents, used_gpulets: int, amounts: Floats) -> None:
    """Write the rate of each workload, then its least rates, negated, and last the worth of the throughput."""
    amounts[:] = 0.0
    workloads = len(worth.per_rps)
    for g in range(used_gpulets):
        for s in range(SLOTS):
            w = contents.workload[g, s]
            if w >= 0:
                amounts[w] += plannable_rps(worth, w, contents.rate_rps[g, s])
                amounts[workloads + w] -= contents.least_rps[g, s]
                amounts[-1] += worth.throughput * contents.throughput_rps[g, s]
    amounts[:workloads] = np.minimum(amounts[:workloads], worth.most_rps)


def _pattern(pool: int, candidates: CandidateGpulets, numbers: list[int]) -> Pattern:
    """Return the pattern of the gpulets with these numbers; -1 stands for none."""
    used = [k for k in numbers if k >= 0]
    slots = np.stack([candidates.workload[used], candidates.batch[used]], axis=-1).tolist()
    return pattern_of(pool, zip(candidates.units[used].tolist(), slots, strict=True))

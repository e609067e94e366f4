"""Every content of a GPU that is worth at least some amount, with its true rates; for small GPUs and few workloads."""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.temporal.contents import GpuContents, contents_of, no_contents, pattern_of, stepped, worth_of
from formulations.colgen.temporal.enumeration import Undominated, nothing_listed, offer
from formulations.colgen.temporal.gpulet_positions import SLOTS, Worth
from formulations.colgen.temporal.pricer import TemporalPricer
from formulations.pattern import Pattern
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables

MOST_GPULETS_TRIED, MOST_TRIED, MOST_FOUND = 20_000, 1_000_000, 20_000
"""Largest numbers of gpulets to choose from, of contents tried, and of undominated contents."""


class Choice(NamedTuple):
    """Gpulets to choose from, by rising share.

    Attributes
    ----------
    units, workload, batch
        Share and slots of each, as in ``GpuContents``, shapes (gpulets,) and (gpulets, 3).
    most_worth
        Largest worth of gpulets that together take at most a number of units, shape (units + 1,).
    """

    units: Ints
    workload: Ints
    batch: Ints
    most_worth: Floats


def contents_worth(pricer: TemporalPricer, worth: Worth, least: float) -> list[Pattern] | None:
    """Return the undominated contents of a GPU worth at least ``least``; ``None`` if they are too many."""
    tables, asked = pricer.tables, pricer.asked
    choice = _choice(pricer, worth)
    if choice is None:
        return None
    most = min(tables.most_residents, int(tables.share_units // tables.permitted[0]))
    contents = nothing_listed(MOST_FOUND, 2 * len(worth.per_rps) + 1, most)
    if not _search(tables, asked, worth, choice, least, no_contents(most), contents):
        return None
    return [_pattern(pricer.pool, choice, row) for row in contents.content[: int(contents.size[0])].tolist()]


def _choice(pricer: TemporalPricer, worth: Worth) -> Choice | None:
    """Return the gpulets that are feasible alone; ``None`` if they are too many."""
    tables = pricer.tables
    batches = [
        (w, b) for w, m in enumerate(pricer.asked.model.tolist()) for b in range(1, int(tables.max_batch[m]) + 1)
    ]
    rows: list[tuple[int, tuple[tuple[int, int], ...], float]] = []
    for units in tables.permitted.tolist():
        for slots in range(1, pricer.slots + 1):
            if len(tables.permitted) * len(batches) ** slots > 6 * MOST_GPULETS_TRIED:
                return None
            for chosen in combinations_with_replacement(batches, slots):
                alone = contents_of(pattern_of(0, [(units, chosen)]))
                value = worth_of(tables, pricer.asked, worth, alone)
                if math.isfinite(value):  # a plan may need workloads that are worth nothing
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
    return Choice(np.array([units for units, _, _ in rows]), workload, batch, most_worth)


@compiled
def _search(
    tables: Tables,
    asked: DemandOnGpu,
    worth: Worth,
    choice: Choice,
    least: float,
    contents: GpuContents,
    found: Undominated,
) -> bool:
    """Try all combinations of gpulets by rising number, depth first; return whether all were tried and kept.

    More gpulets only lengthen the times of the others, so an infeasible content stays infeasible with more.
    """
    most, gpulets = len(contents.units), len(choice.units)
    number = np.full(most, -1, dtype=np.int64)
    depth, left, tried = 0, tables.share_units, 0
    served = np.zeros(2 * len(worth.per_rps) + 1)
    while depth >= 0:
        if number[depth] >= 0:
            left += contents.units[depth]
            contents.units[depth] = 0
        first = number[depth - 1] if depth > 0 else 0
        k = max(number[depth] + 1, first)
        deeper = False
        while k < gpulets and choice.units[k] <= left:
            tried += 1
            if tried > MOST_TRIED:
                return False
            contents.units[depth] = choice.units[k]
            contents.workload[depth], contents.batch[depth] = choice.workload[k], choice.batch[k]
            value = worth_of(tables, asked, worth, contents)
            if value + choice.most_worth[left - choice.units[k]] >= least:
                number[depth] = k
                if value >= least:
                    _served(worth, contents, depth + 1, served)
                    if not offer(found, served, 0.0, number):
                        return False
                left -= choice.units[k]
                deeper = True
                break
            contents.units[depth] = 0
            k += 1
        if deeper and depth + 1 < most:
            depth += 1
            number[depth] = -1
        elif not deeper:
            number[depth] = -1
            depth -= 1
    return True


@compiled
def _served(worth: Worth, contents: GpuContents, gpulets: int, served: Floats) -> None:
    """Write the rate of each workload, then its least rates, negated, and last the worth of the throughput."""
    served[:] = 0.0
    workloads = len(worth.per_rps)
    for g in range(gpulets):
        for s in range(SLOTS):
            w = contents.workload[g, s]
            if w >= 0:
                served[w] += stepped(worth, w, contents.rate_rps[g, s])
                served[workloads + w] -= contents.least_rps[g, s]
                served[-1] += worth.throughput * contents.throughput_rps[g, s]
    served[:workloads] = np.minimum(served[:workloads], worth.most_rps)


def _pattern(pool: int, choice: Choice, numbers: list[int]) -> Pattern:
    used = [k for k in numbers if k >= 0]
    slots = np.stack([choice.workload[used], choice.batch[used]], axis=-1).tolist()
    return pattern_of(pool, zip(choice.units[used].tolist(), slots, strict=True))

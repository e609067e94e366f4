"""Conflicts: minimal sets of workloads that cannot share one GPU at any batches, shares and rates.

Conflicts follow from the integer conditions, so an integer model may add them as cuts. A feasible GPU contains no
conflict. If all conflicts are listed, a GPU without conflicts is feasible.
"""

import time
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from formulations.cpsat.integers import memory_limit, whole_conditions, whole_demand, whole_memory
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.configurations import Configurations
from instances.grouping import grouped
from instances.tables import Tables

NODE_LIMIT = 100_000
"""Largest number of batch combinations tried for one set; a set that is undecided at the limit counts as fitting."""


class Chains(NamedTuple):
    """Configurations of all workloads on one GPU type in integers, one after another, in chains.

    A chain has the configurations of one workload at one batch and rate, by ascending share.

    Attributes
    ----------
    units, memory, demand, conditions
        Share, and the figures of ``formulations.cpsat.integers``, shape (all configurations, ...).
    start
        First configuration of each chain and the end of the last, shape (chains + 1,).
    first
        First chain of each workload and the end of the last, shape (workloads + 1,).
    floor
        Least units, memory, L2, DRAM and power of each workload, shape (workloads, 5).
    """

    units: Ints
    memory: Ints
    demand: Ints
    conditions: Ints
    start: Ints
    first: Ints
    floor: Ints

    @classmethod
    def of(cls, workloads: Sequence[Configurations], tables: Tables, most: Floats) -> "Chains":
        """Chain the configurations of ``workloads``; a workload without any gets no chain and fits nowhere.

        ``most`` is as for ``whole_conditions``.
        """
        joined = Configurations.joined(workloads)
        figures = joined.units, whole_memory(joined, tables), whole_demand(joined, tables)
        start = np.append(np.flatnonzero(joined.chain_starts()), joined.size)
        amounts, least = np.column_stack(figures), np.zeros((len(workloads), 5), dtype=np.int64)
        for w in np.unique(joined.item).tolist():
            least[w] = amounts[joined.first[w] : joined.first[w + 1]].min(axis=0)
        first = np.searchsorted(start, joined.first)
        return cls(*figures, whole_conditions(joined, tables, most), start, first, least)

    def rows(self, workload: int) -> slice:
        """Return the rows of a workload's configurations."""
        return slice(*self.start[self.first[workload : workload + 2]].tolist())


@compiled
def _settle(chains: Chains, position: Ints, chain: Ints, settled: int, count: int, base: Ints, room: int) -> bool:
    """Raise the shares of the first ``settled`` members to the least ones that meet their conditions.

    ``base`` holds the least units and demands of the other members.
    """
    while True:
        units, l2, dram, power = base[0], base[2], base[3], base[4]
        for i in range(settled):
            units += chains.units[position[i]]
            l2 += chains.demand[position[i], 0]
            dram += chains.demand[position[i], 1]
            power += chains.demand[position[i], 2]
        if units > room:
            return False
        raised = False
        for i in range(settled):
            k = position[i]
            for row in range(2):
                a = chains.conditions[k, row]
                others = (
                    a[1] * (l2 - chains.demand[k, 0])
                    + a[2] * (dram - chains.demand[k, 1])
                    + a[3] * (power - chains.demand[k, 2])
                )
                if a[0] * count + others > a[4]:
                    raised = True
                    position[i] += 1
                    if position[i] == chains.start[chain[i] + 1]:
                        return False
                    break
        if not raised:
            return True


@compiled
def fit_together(chains: Chains, members: Ints, share_units: int, memory_limit: int) -> bool:
    """Return whether ``members`` fit on one GPU in some configurations; ``True`` if ``NODE_LIMIT`` stops the search.

    The search goes depth first over the chains of one member after another. The least shares of the decided members,
    beside the least demands of the others, never fall with the depth. So an infeasible node prunes its subtree.
    """
    count = len(members)
    chain = np.zeros(count, dtype=np.int64)
    position = np.zeros((count, count), dtype=np.int64)
    base = np.zeros((count + 1, 5), dtype=np.int64)
    for i in range(count - 1, -1, -1):
        for q in range(5):
            base[i, q] = base[i + 1, q] + chains.floor[members[i], q]
    memory = np.zeros(count + 1, dtype=np.int64)
    depth, nodes = 0, 0
    chain[0] = chains.first[members[0]] - 1
    while depth >= 0:
        chain[depth] += 1
        if chain[depth] == chains.first[members[depth] + 1]:
            depth -= 1
            continue
        nodes += 1
        if nodes > NODE_LIMIT:
            return True
        at = chains.start[chain[depth]]
        memory[depth + 1] = memory[depth] + chains.memory[at]
        if memory[depth + 1] + base[depth + 1, 1] > memory_limit:
            continue
        for i in range(depth):
            position[depth, i] = position[depth - 1, i]
        position[depth, depth] = at
        if not _settle(chains, position[depth], chain, depth + 1, count, base[depth + 1], share_units):
            continue
        if depth == count - 1:
            return True
        depth += 1
        chain[depth] = chains.first[members[depth]] - 1
    return False


def find_conflicts(chains: Chains, tables: Tables, most: int, deadline: float) -> list[tuple[int, ...]]:
    """Return conflicts, smaller ones first; all of them unless a limit stops the search.

    Sets are enumerated by size; only sets whose subsets all fit are tested.

    Parameters
    ----------
    most
        Largest number of sets to test; the search stops before a size that would exceed it.
    deadline
        ``time.monotonic()`` value at which to stop.
    """
    limits = (tables.share_units, memory_limit(tables))
    conflicts: list[tuple[int, ...]] = []
    fitting: set[tuple[int, ...]] = {(w,) for w in np.flatnonzero(np.diff(chains.first)).tolist()}
    looked_at = 0
    while fitting:
        candidates = _one_larger(fitting)
        looked_at += len(candidates)
        if looked_at > most or time.monotonic() > deadline:
            break
        fitting = set()
        for members in candidates:
            if fit_together(chains, np.array(members, dtype=np.int64), *limits):
                fitting.add(members)
            else:
                conflicts.append(members)
    return conflicts


def _one_larger(fitting: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the sets with one member more whose subsets without any one member are all in ``fitting``."""
    by_head = grouped((members[:-1], members[-1]) for members in sorted(fitting))
    return [
        (*head, a, b)
        for head, tails in by_head.items()
        for a, b in combinations(tails, 2)
        if all((*head[:i], *head[i + 1 :], a, b) in fitting for i in range(len(head)))
    ]

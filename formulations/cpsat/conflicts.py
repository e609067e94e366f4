"""Conflicts: minimal sets of workloads that cannot share one GPU at any batches, shares and rates.

Conflicts follow from the integer conditions, so an integer model may add them as cuts. A feasible GPU contains no
conflict. If all conflicts are listed and no search met ``NODE_LIMIT``, the reverse holds in integers: workloads that
have configurations and contain no conflict fit on a GPU.
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
"""Largest number of chains tried for the members of one set; a set that is undecided at the limit counts as fitting."""


class Chains(NamedTuple):
    """Configurations of all workloads on one GPU type in integers, one after another, in chains.

    A chain has the configurations of one workload at one batch and rate, by ascending share.

    Attributes
    ----------
    units, memory, demand, conditions
        Share in units, and memory, demands and conditions as in ``formulations.cpsat.integers``, shape (all
        configurations, ...).
    chain_start
        Row of the first configuration of each chain, and the end of the last chain, shape (chains + 1,).
    first_chain
        First chain of each workload, and the end of the last workload's chains, shape (workloads + 1,).
    least_amounts
        Least units, memory, L2, DRAM and power of each workload, shape (workloads, 5).
    """

    units: Ints
    memory: Ints
    demand: Ints
    conditions: Ints
    chain_start: Ints
    first_chain: Ints
    least_amounts: Ints

    @classmethod
    def of(cls, workloads: Sequence[Configurations], tables: Tables, most_amounts: Floats) -> "Chains":
        """Chain the configurations of ``workloads``; a workload without configurations has no chain and fits nowhere.

        ``most_amounts`` is that of ``whole_conditions``.
        """
        all_configurations = Configurations.joined(workloads)
        figures = (
            all_configurations.units,
            whole_memory(all_configurations, tables),
            whole_demand(all_configurations, tables),
        )
        chain_start = np.append(np.flatnonzero(all_configurations.chain_starts()), all_configurations.size)
        amounts, least_amounts = np.column_stack(figures), np.zeros((len(workloads), 5), dtype=np.int64)
        for workload in np.unique(all_configurations.item).tolist():
            rows = slice(all_configurations.first[workload], all_configurations.first[workload + 1])
            least_amounts[workload] = amounts[rows].min(axis=0)
        first_chain = np.searchsorted(chain_start, all_configurations.first)
        return cls(
            *figures,
            whole_conditions(all_configurations, tables, most_amounts),
            chain_start,
            first_chain,
            least_amounts,
        )

    def rows(self, workload: int) -> slice:
        """Return the rows of a workload's configurations."""
        return slice(*self.chain_start[self.first_chain[workload : workload + 2]].tolist())


@compiled
def _raise_shares(
    chains: Chains,
    rows: Ints,
    chains_of_members: Ints,
    decided: int,
    member_count: int,
    undecided_least: Ints,
    share_units: int,
) -> bool:
    """Raise the shares of the first ``decided`` members to the least shares that meet their conditions.

    Return whether the members fit. ``undecided_least`` is the sum of the least units, memory and demands of the
    other members.
    """
    while True:
        units, l2, dram, power = (
            undecided_least[0],
            undecided_least[2],
            undecided_least[3],
            undecided_least[4],
        )
        for i in range(decided):
            units += chains.units[rows[i]]
            l2 += chains.demand[rows[i], 0]
            dram += chains.demand[rows[i], 1]
            power += chains.demand[rows[i], 2]
        if units > share_units:
            return False
        raised = False
        for i in range(decided):
            row = rows[i]
            for condition in range(2):
                coefficients = chains.conditions[row, condition]
                others_load = (
                    coefficients[1] * (l2 - chains.demand[row, 0])
                    + coefficients[2] * (dram - chains.demand[row, 1])
                    + coefficients[3] * (power - chains.demand[row, 2])
                )
                if coefficients[0] * member_count + others_load > coefficients[4]:
                    raised = True
                    rows[i] += 1
                    if rows[i] == chains.chain_start[chains_of_members[i] + 1]:
                        return False
                    break
        if not raised:
            return True


@compiled
def fit_together(chains: Chains, members: Ints, share_units: int, memory_limit: int) -> bool:
    """Return whether ``members`` fit on one GPU in some configurations; ``True`` if ``NODE_LIMIT`` stops the search.

    The search goes depth first over the chains of one member after another. At each node, the least shares of the
    decided members beside the least demands of the others are computed. These shares never fall with the depth, so an
    infeasible node prunes its subtree.
    """
    member_count = len(members)
    chains_of_members = np.zeros(member_count, dtype=np.int64)
    rows = np.zeros((member_count, member_count), dtype=np.int64)
    undecided_least = np.zeros((member_count + 1, 5), dtype=np.int64)
    for i in range(member_count - 1, -1, -1):
        for quantity in range(5):
            undecided_least[i, quantity] = undecided_least[i + 1, quantity] + chains.least_amounts[members[i], quantity]
    memory = np.zeros(member_count + 1, dtype=np.int64)
    depth, node_count = 0, 0
    chains_of_members[0] = chains.first_chain[members[0]] - 1
    while depth >= 0:
        chains_of_members[depth] += 1
        if chains_of_members[depth] == chains.first_chain[members[depth] + 1]:
            depth -= 1
            continue
        node_count += 1
        if node_count > NODE_LIMIT:
            return True
        first_row = chains.chain_start[chains_of_members[depth]]
        memory[depth + 1] = memory[depth] + chains.memory[first_row]
        if memory[depth + 1] + undecided_least[depth + 1, 1] > memory_limit:
            continue
        for i in range(depth):
            rows[depth, i] = rows[depth - 1, i]
        rows[depth, depth] = first_row
        if not _raise_shares(
            chains, rows[depth], chains_of_members, depth + 1, member_count, undecided_least[depth + 1], share_units
        ):
            continue
        if depth == member_count - 1:
            return True
        depth += 1
        chains_of_members[depth] = chains.first_chain[members[depth]] - 1
    return False


def find_conflicts(chains: Chains, tables: Tables, most_sets: int, deadline: float) -> list[tuple[int, ...]]:
    """Return all conflicts, smaller sets first, or those that were found before a limit stopped the search.

    Sets are enumerated by size; only sets whose subsets all fit are tested.

    Parameters
    ----------
    most_sets
        Largest number of sets to test; the search stops before a size that would exceed it.
    deadline
        ``time.monotonic()`` value after which no larger size is begun.
    """
    limits = (tables.share_units, memory_limit(tables))
    conflicts: list[tuple[int, ...]] = []
    fitting: set[tuple[int, ...]] = {(workload,) for workload in np.flatnonzero(np.diff(chains.first_chain)).tolist()}
    tested_count = 0
    while fitting:
        candidates = _one_larger(fitting)
        tested_count += len(candidates)
        if tested_count > most_sets or time.monotonic() > deadline:
            break
        fitting = set()
        for members in candidates:
            if fit_together(chains, np.array(members, dtype=np.int64), *limits):
                fitting.add(members)
            else:
                conflicts.append(members)
    return conflicts


def _one_larger(fitting: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the sets that have one member more and are in ``fitting`` whichever member is removed."""
    by_head = grouped((members[:-1], members[-1]) for members in sorted(fitting))
    return [
        (*shared_members, a, b)
        for shared_members, last_members in by_head.items()
        for a, b in combinations(last_members, 2)
        if all((*shared_members[:i], *shared_members[i + 1 :], a, b) in fitting for i in range(len(shared_members)))
    ]

"""Conditions of a branch on pairs of workloads: not on one GPU, or only together on one GPU."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Flags, Ints
from instances.compiled import compiled


class Pairs(NamedTuple):
    """Conditions on pairs of workloads, by the places of the workloads in the order of pricing.

    Attributes
    ----------
    apart
        Whether two workloads must not share a GPU, shape (workloads, workloads).
    mate_before, mate_after
        Partners that must share the workload's GPU: the nearest one before (else -1) and after (else the number of
        workloads), shape (workloads,).
    """

    apart: Flags
    mate_before: Ints
    mate_after: Ints

    @classmethod
    def none(cls, workloads: int) -> "Pairs":
        """Return no conditions."""
        return cls(
            np.zeros((workloads, workloads), dtype=np.bool_),
            np.full(workloads, -1, dtype=np.int64),
            np.full(workloads, workloads, dtype=np.int64),
        )

    @property
    def tied(self) -> Flags:
        """Whether a workload has a partner, shape (workloads,)."""
        flags: Flags = (self.mate_before >= 0) | (self.mate_after < len(self.mate_after))
        return flags


@compiled
def may_follow(pairs: Pairs, workload: Ints, chosen: Ints, depth: int, w: int, last: bool) -> bool:
    """Return whether ``w`` may follow the residents chosen so far: no conflicting pair, every required partner present.

    Parameters
    ----------
    workload, chosen, depth
        Workload of each choice, and the choices of the first ``depth`` residents, in the order of the workloads.
    last
        Whether ``w`` is the last resident, so that no partner may be missing after it.
    """
    workloads = len(pairs.mate_after)
    mate_met = pairs.mate_before[w] < 0
    for d in range(depth):
        other = workload[chosen[d]]
        mate = pairs.mate_after[other]
        if pairs.apart[w, other] or (last and w < mate < workloads):
            return False
        if mate < w and not _holds(workload, chosen, depth, mate):
            return False
        mate_met = mate_met or other == pairs.mate_before[w]
    return mate_met and not (last and pairs.mate_after[w] < workloads)


@compiled
def _holds(workload: Ints, chosen: Ints, depth: int, sought: int) -> bool:
    for d in range(depth):
        if workload[chosen[d]] == sought:
            return True
    return False


@compiled
def permitted(pairs: Pairs, places: Ints) -> bool:
    """Return whether a GPU may have exactly the workloads at these places, which ascend."""
    workload_at = np.arange(len(pairs.mate_after))
    for depth in range(len(places)):
        if not may_follow(pairs, workload_at, places, depth, places[depth], depth == len(places) - 1):
            return False
    return True

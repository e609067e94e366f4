"""Placement rule of Horus (TPDS 2022): each job goes to the GPU of least cost among a fixed number of GPUs.

The rule is that of a published simulator that appears to be the authors' own. The cost of a GPU for a job has three
terms. They are the memory in use with the job, the distance of the utilisation with the job from the whole GPU (with a
larger weight above the whole GPU than below), and the number of jobs already there. With unlimited GPUs, the rule would
give every job a GPU of its own.
"""

from math import ceil

import numpy as np

from heuristics.mediator.grouping import CAPACITY, Fits
from instances.arrays import Floats

MEMORY_WEIGHT = 1.3
"""Weight of the fraction of the memory in use (the simulator's ``MEMCOST``)."""

OVERLOAD_WEIGHT = 1.6
"""Weight of the utilisation above the whole GPU; below it, the weight is 1 (the simulator's ``UTILCOST``)."""


def fill_by_cost(mean: Floats, memory: Floats, fits: Fits) -> list[list[int]]:
    """Place jobs in descending order of utilisation, each on the GPU of least cost on which its memory fits.

    The number of GPUs is the least that the mean utilisations permit; one more opens if a job fits on none.

    Parameters
    ----------
    mean
        Mean utilisation of each job, shape (jobs,).
    memory
        Memory of each job as a fraction of the GPU's memory, shape (jobs,).
    fits
        Test whether a group fits into the memory. It does not apply to a group of one.
    """
    groups: list[list[int]] = [[] for _ in range(ceil(mean.sum() / CAPACITY))]
    for i in np.argsort(-mean, kind="stable").tolist():
        permitted = [group for group in groups if not group or fits([*group, i])]
        if not permitted:
            permitted = [[]]
            groups += permitted
        min(permitted, key=lambda group: _cost(mean, memory, group, i)).append(i)
    return [group for group in groups if group]


def _cost(mean: Floats, memory: Floats, group: list[int], i: int) -> float:
    """Return the cost of the GPU of a group for job ``i``."""
    excess = float(mean[[*group, i]].sum()) - CAPACITY
    weighted_excess = OVERLOAD_WEIGHT * excess if excess > 0.0 else -excess
    return MEMORY_WEIGHT * float(memory[[*group, i]].sum()) + weighted_excess + len(group)

"""Conversion of patterns to a plan in which every workload is placed once."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.pricer import Pattern
from instances import PlacedGpu, Plan
from instances.one_gpu import Resident


def plan_of(
    instance: str,
    class_of: NDArray[np.int64],
    patterns: Iterable[Pattern],
    placed: Callable[[Pattern, list[Resident]], PlacedGpu | None],
) -> Plan:
    """Build the plan with one GPU per pattern; a workload that several patterns cover is placed once.

    Parameters
    ----------
    instance
        Name of the instance.
    class_of
        Class of identical workloads that each workload belongs to, shape (workloads,).
    patterns
        Patterns of the solution; a member stands for any workload of its class.
    placed
        Function that makes a GPU from a pattern and its remaining residents.
    """
    waiting: dict[int, deque[int]] = defaultdict(deque)
    for workload, group in enumerate(class_of):
        waiting[int(group)].append(workload)
    gpus = []
    for pattern in patterns:
        residents = [
            Resident(waiting[int(class_of[w])].popleft(), batch, rate)
            for w, batch, rate in pattern.members
            if waiting[int(class_of[w])]
        ]
        if residents:
            gpu = placed(pattern, residents)
            assert gpu is not None, "a pattern stays feasible when residents leave it"
            gpus.append(gpu)
    return Plan(instance, tuple(gpus))

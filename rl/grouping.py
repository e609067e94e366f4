"""Large clusters in groups as a policy knows them (InSS Sec. 5.1: GPUs in sets of four, workloads dealt evenly)."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from instances import Workload
from rl.policy import Policy

Ints = NDArray[np.int64]

ROUNDING = 1e-9


class NoFitError(ValueError):
    """A policy was not trained for these workloads or GPUs."""


def deal(policy: Policy, workloads: Sequence[Workload], gpus: int) -> Ints:
    """Divide workloads among groups of ``policy.gpus`` GPUs, each at most what the policy was trained for.

    Workloads of one model and SLO are dealt in order of their rates: the largest of each group to the place with the
    largest rate, and so on. Every second model is dealt the other way round, so that no group gets the largest of all.

    Returns
    -------
    numpy.ndarray
        Position of the workload at each place of each group, -1 for none; shape (groups, policy's workloads).

    Raises
    ------
    NoFitError
        If the GPUs do not make whole groups, or a workload has no place: another model or SLO, too many of a kind, or a
        rate that the policy was not trained for.
    """
    groups, rest = divmod(gpus, policy.gpus)
    if rest or not groups:
        raise NoFitError(f"trained for groups of {policy.gpus} GPUs; there are {gpus}")
    places: dict[tuple[str, float], list[int]] = defaultdict(list)
    for place in sorted(range(len(policy.models)), key=lambda place: -policy.rate_rps[place]):
        places[policy.models[place], policy.slo_ms[place]].append(place)
    waiting: dict[tuple[str, float], list[int]] = defaultdict(list)
    for position in sorted(range(len(workloads)), key=lambda position: -workloads[position].rate_rps):
        waiting[workloads[position].model, workloads[position].slo_ms].append(position)
    dealt = np.full((groups, len(policy.models)), -1, dtype=np.int64)
    for number, (kind, positions) in enumerate(waiting.items()):
        if len(positions) > groups * len(places.get(kind, ())):
            known = groups * len(places.get(kind, ()))
            raise NoFitError(f"trained for {known} of {kind[0]} at {kind[1]:g} ms; there are {len(positions)}")
        for turn, position in enumerate(positions):
            place, group = places[kind][turn // groups], turn % groups
            low, high = (policy.rate_rps[place] * limit for limit in (policy.lowest, policy.highest))
            workload = workloads[position]
            if not low * (1.0 - ROUNDING) <= workload.rate_rps <= high * (1.0 + ROUNDING):
                asked = f"{workload.id} ({workload.model}) asks for {workload.rate_rps:g}"
                raise NoFitError(f"trained for {low:g} to {high:g} req/s there; {asked}")
            dealt[group if number % 2 == 0 else groups - 1 - group, place] = position
    return dealt

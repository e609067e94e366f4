"""Division of large clusters into groups of the size that a policy was trained for (InSS Sec. 5.1: four GPUs)."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import PART_STEPS, Objective, Workload
from instances.arrays import Floats, Ints
from rl.policy import Policy

Kind = tuple[str, float]
"""Model and SLO of a workload. A group has one place for each workload that its policy was trained for."""

ROUNDING = 1e-9
"""Relative tolerance when rates are compared."""


class NoFitError(ValueError):
    """Error: a policy was not trained for these workloads or GPUs."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """Assignment of workloads to groups.

    Attributes
    ----------
    position
        Position of the workload at each place of each group, -1 for an empty place; shape (groups, places).
    rate_rps
        Rate to serve there: the workload's whole rate, a replica's part of it, or 0 at an empty place; of the same
        shape.
    """

    position: Ints
    rate_rps: Floats


def deal(policy: Policy, workloads: Sequence[Workload], gpus: int) -> Dealt:
    """Divide workloads among groups of ``policy.gpus`` GPUs, so that each group resembles the policy's training.

    A workload is replicated if its rate is above the training range of all places of its model and SLO. (Sec. 5.4 also
    has a threshold for each model.) The replicas are equal parts of its rate, as few as possible such that a part fits
    each of these places. If requests may be rejected, the parts are equal up to one step of admission.

    Workloads of one model and SLO are dealt in descending order of their rates: first one to each group, at the place
    with the largest training rate, then one to each group at the next place, and so on. Every second model is dealt to
    the groups in reverse order, so that no group gets the largest rates of all models. Places may stay empty, which
    never happens in training.

    Raises
    ------
    NoFitError
        If the GPUs do not form whole groups, or a workload has no place because of its model, its SLO, its rate or the
        number of workloads of its kind.
    """
    groups, left_over = divmod(gpus, policy.gpus)
    if left_over or not groups:
        raise NoFitError(f"trained for groups of {policy.gpus} GPUs; there are {gpus}")
    places: dict[Kind, list[int]] = defaultdict(list)
    for place in sorted(range(len(policy.models)), key=lambda place: -policy.rate_rps[place]):
        places[policy.models[place], policy.slo_ms[place]].append(place)
    parts_of: dict[Kind, list[tuple[int, float]]] = defaultdict(list)  # positions of workloads, parts of their rates
    for number, workload in enumerate(workloads):
        kind = workload.model, workload.slo_ms
        if kind not in places:
            raise NoFitError(f"not trained for {workload.model} at {workload.slo_ms:g} ms ({workload.id})")
        # The highest training rate of each place, in descending order
        most_rps = [policy.rate_rps[place] * policy.highest * (1.0 + ROUNDING) for place in places[kind]]
        parts_rps = [workload.rate_rps]
        if workload.rate_rps > most_rps[0]:
            parts_rps = _divided(workload, most_rps[-1], policy.objective == Objective.GOODPUT)
        parts_of[kind] += [(number, part_rps) for part_rps in parts_rps]
    position = np.full((groups, len(policy.models)), -1, dtype=np.int64)
    rate_rps = np.zeros(position.shape)
    for kind_number, (kind, parts) in enumerate(parts_of.items()):
        most_parts = groups * len(places[kind])
        if len(parts) > most_parts:
            problem = f"there are {len(parts)} workloads of {kind[0]} at {kind[1]:g} ms, replicas included"
            raise NoFitError(f"{problem}; trained for {most_parts}")
        for turn, (number, part_rps) in enumerate(sorted(parts, key=lambda part: -part[1])):
            place, group = places[kind][turn // groups], turn % groups
            if kind_number % 2 == 1:
                group = groups - 1 - group
            low_rps, high_rps = (policy.rate_rps[place] * limit for limit in (policy.lowest, policy.highest))
            if not low_rps * (1.0 - ROUNDING) <= part_rps <= high_rps * (1.0 + ROUNDING):
                problem = f"{workloads[number].id} ({kind[0]}) has {part_rps:g}"
                raise NoFitError(f"trained for {low_rps:g} to {high_rps:g} req/s; {problem}")
            position[group, place], rate_rps[group, place] = number, part_rps
    return Dealt(position, rate_rps)


def _divided(workload: Workload, most_rps: float, in_steps: bool) -> list[float]:
    """Return the rates of the fewest replicas of at most ``most_rps`` each.

    With ``in_steps``, each rate is a whole number of admission steps of the workload's rate.
    """
    if not in_steps:
        replicas = math.ceil(workload.rate_rps / most_rps)
        return [workload.rate_rps / replicas] * replicas
    most_steps = int(most_rps / workload.rate_rps * PART_STEPS)
    if most_steps == 0:
        part = f"1/{PART_STEPS} of {workload.id}'s {workload.rate_rps:g} req/s"
        raise NoFitError(f"trained for at most {most_rps:g} req/s; {part} is more")
    replicas = math.ceil(PART_STEPS / most_steps)
    steps, larger = divmod(PART_STEPS, replicas)
    return [workload.rate_rps * (steps + (replica < larger)) / PART_STEPS for replica in range(replicas)]

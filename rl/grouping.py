"""Division of large clusters into the groups that a policy knows (InSS Sec. 5.1: sets of four GPUs, even deal)."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import PART_STEPS, Objective, Workload
from instances.arrays import Floats, Ints
from rl.policy import Policy

Kind = tuple[str, float]
"""Model and SLO that a place of a policy is for."""

ROUNDING = 1e-9


class NoFitError(ValueError):
    """A policy was not trained for these workloads or GPUs."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """Assignment of workloads to groups.

    Attributes
    ----------
    position
        Position of the workload at each place of each group, -1 for none; shape (groups, policy's workloads).
    rate_rps
        Rate to serve there: the whole rate, a part for a replica, 0 for none; of the same shape.
    """

    position: Ints
    rate_rps: Floats


@dataclass(frozen=True, slots=True)
class _Part:
    """Workload, or one of its replicas."""

    position: int
    rate_rps: float


def deal(policy: Policy, workloads: Sequence[Workload], gpus: int) -> Dealt:
    """Divide workloads among groups of ``policy.gpus`` GPUs, each group within what the policy was trained for.

    A workload with a higher rate than the policy knows for its model is replicated. (Sec. 5.4 also has a threshold for
    each model.) The replicas are equal parts, as few as fit the rates of the model's places. If requests may be
    rejected, the parts are equal up to one admission step. Workloads of one model and SLO are dealt in order of their
    rates: the largest of each group to the place with the largest rate, and so on. Every second model is dealt in
    reverse, so that no group gets the largest of all models. Places may stay empty, although they never are in
    training.

    Raises
    ------
    NoFitError
        If the GPUs do not form whole groups, or a workload has no place: another model or SLO, too many of a kind, or a
        rate outside the policy's training.
    """
    groups, rest = divmod(gpus, policy.gpus)
    if rest or not groups:
        raise NoFitError(f"trained for groups of {policy.gpus} GPUs; there are {gpus}")
    places: dict[Kind, list[int]] = defaultdict(list)
    for place in sorted(range(len(policy.models)), key=lambda place: -policy.rate_rps[place]):
        places[policy.models[place], policy.slo_ms[place]].append(place)
    waiting: dict[Kind, list[_Part]] = defaultdict(list)
    for number, workload in enumerate(workloads):
        kind = workload.model, workload.slo_ms
        if kind not in places:
            raise NoFitError(f"not trained for {workload.model} at {workload.slo_ms:g} ms ({workload.id})")
        most_rps = [policy.rate_rps[place] * policy.highest * (1.0 + ROUNDING) for place in places[kind]]
        parts_rps = [workload.rate_rps]
        if workload.rate_rps > most_rps[0]:
            parts_rps = _divided(workload, most_rps[-1], policy.objective == Objective.GOODPUT)
        waiting[kind] += [_Part(number, rate_rps) for rate_rps in parts_rps]
    position = np.full((groups, len(policy.models)), -1, dtype=np.int64)
    rate_rps = np.zeros(position.shape)
    for turned, (kind, parts) in enumerate(waiting.items()):
        known = groups * len(places[kind])
        if len(parts) > known:
            there = f"there are {len(parts)}, replicas included"
            raise NoFitError(f"trained for {known} of {kind[0]} at {kind[1]:g} ms; {there}")
        for turn, part in enumerate(sorted(parts, key=lambda part: -part.rate_rps)):
            place, group = places[kind][turn // groups], turn % groups
            low_rps, high_rps = (policy.rate_rps[place] * limit for limit in (policy.lowest, policy.highest))
            if not low_rps * (1.0 - ROUNDING) <= part.rate_rps <= high_rps * (1.0 + ROUNDING):
                asked = f"{workloads[part.position].id} ({kind[0]}) asks for {part.rate_rps:g}"
                raise NoFitError(f"trained for {low_rps:g} to {high_rps:g} req/s there; {asked}")
            at = group if turned % 2 == 0 else groups - 1 - group, place
            position[at], rate_rps[at] = part.position, part.rate_rps
    return Dealt(position, rate_rps)


def _divided(workload: Workload, most_rps: float, in_steps: bool) -> list[float]:
    """Return the rates of the fewest replicas of at most ``most_rps`` each."""
    if not in_steps:
        replicas = math.ceil(workload.rate_rps / most_rps)
        return [workload.rate_rps / replicas] * replicas
    most_steps = int(most_rps / workload.rate_rps * PART_STEPS)
    if most_steps == 0:
        raise NoFitError(f"{workload.id} asks for {workload.rate_rps:g} req/s, and one step of it exceeds {most_rps:g}")
    replicas = math.ceil(PART_STEPS / most_steps)
    steps, more = divmod(PART_STEPS, replicas)
    return [workload.rate_rps * (steps + (replica < more)) / PART_STEPS for replica in range(replicas)]

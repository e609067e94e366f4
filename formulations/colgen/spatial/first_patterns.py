"""First patterns of ``cost`` and ``goodput``: choices alone, and GPUs filled by first fit."""

import math
from collections.abc import Iterator

import numpy as np

from formulations.colgen.pattern_problem import COVER_ROOM, PatternProblem
from formulations.colgen.spatial.pricer import Pricer
from formulations.pattern import Pattern
from instances.arrays import Floats
from instances.one_gpu import Resident, fit_gpu


def every_choice_alone(problem: PatternProblem, pricer: Pricer) -> Iterator[Pattern]:
    """Yield a pattern for each choice alone; for a divisible workload only that of the largest part that fits."""
    for place, w in enumerate(pricer.workloads.tolist()):
        for choice in range(pricer.choices.first[place], pricer.choices.first[place + 1]):
            pattern = _alone(pricer, choice)
            if pattern is not None:
                yield pattern
                if w in problem.divisible:
                    break


def _alone(pricer: Pricer, choice: int) -> Pattern | None:
    """Return a choice alone at its first feasible batch: a least share ignores the choice's own power."""
    choices = pricer.choices
    w, rate = int(pricer.workloads[choices.workload[choice]]), float(choices.rate_rps[choice])
    for option in range(choices.option[choice], choices.option[choice + 1]):
        resident = Resident(w, int(choices.batch[option]), rate)
        if fit_gpu(pricer.view, [resident]) is not None:
            return Pattern.of(pricer.pool, [resident])
    return None


def least_fraction(problem: PatternProblem, pricer: Pricer) -> Floats:
    """Return each workload's least share alone as a fraction of the GPU, in pattern order; inf if infeasible.

    For a divisible workload it is the sum over its parts, at the best ratio of part to share.
    """
    fraction = np.full(len(pricer.workloads), np.inf)
    for k, w in enumerate(pricer.choices.workload):
        options = slice(pricer.choices.option[k], pricer.choices.option[k + 1])
        least = float(pricer.choices.lower_units[options].min()) / pricer.tables.share_units
        least /= problem.part(int(pricer.workloads[w]), float(pricer.choices.rate_rps[k]))
        fraction[w] = min(fraction[w], least)
    return fraction


def first_fit(problem: PatternProblem, pricer: Pricer) -> list[Pattern]:
    """Fill GPUs by first fit with the workloads in order of decreasing least share."""
    choices, fraction = pricer.choices, least_fraction(problem, pricer)
    gpus: list[tuple[list[Resident], float]] = []
    for place in np.argsort(-fraction, kind="stable").tolist():
        for choice in _first_choices(problem, pricer, place) if np.isfinite(fraction[place]) else ():
            options = range(choices.option[choice], choices.option[choice + 1])
            least = min(options, key=lambda o: int(choices.lower_units[o]))
            need = float(choices.lower_units[least]) / pricer.tables.share_units
            w, rate = int(pricer.workloads[place]), float(choices.rate_rps[choice])
            resident = Resident(w, int(choices.batch[least]), rate)
            for g, (residents, used) in enumerate(gpus):
                if used + need <= 1.0 and w not in [other.workload for other in residents]:
                    placed = fit_gpu(pricer.view, [*residents, resident])
                    if placed is not None:
                        gpus[g] = ([*residents, resident], placed.share_units / pricer.tables.share_units)
                        break
            else:
                if fit_gpu(pricer.view, [resident]) is not None:
                    gpus.append(([resident], need))
    return [Pattern.of(pricer.pool, sorted(residents)) for residents, _ in gpus]


def _first_choices(problem: PatternProblem, pricer: Pricer, place: int) -> list[int]:
    """Return the choices of a workload for first fit: of least share, or the fewest equal parts that cover it."""
    choices, w = pricer.choices, int(pricer.workloads[place])
    own = range(choices.first[place], choices.first[place + 1])
    if w not in problem.divisible:
        return [min(own, key=lambda k: int(choices.lower_units[choices.option[k] : choices.option[k + 1]].min()))]
    part = {k: problem.part(w, float(choices.rate_rps[k])) for k in own}
    count = math.ceil((1.0 - COVER_ROOM) / max(part.values()))
    enough = [k for k in own if part[k] * count >= 1.0 - COVER_ROOM]
    return [min(enough, key=lambda k: (part[k], int(choices.lower_units[choices.option[k]])))] * count

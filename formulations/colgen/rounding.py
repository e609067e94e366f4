"""Integer solutions from the linear relaxation: diving with pricing."""

import math

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.clock import now
from formulations.colgen.generation import Generation

SURE = 0.999
"""Weights at or above this count as integers."""


def dive(generation: Generation) -> dict[int, int] | None:
    """Fix the largest weights step by step, and price for the rest.

    A step fixes one weight, or as many as are needed to finish in half of the remaining time.

    Parameters
    ----------
    generation
        Column generation with its linear relaxation solved.

    Returns
    -------
    dict or None
        Number of GPUs of each pattern, or ``None`` if the time or the pool was exhausted.
    """
    master, run = generation.master, generation.run
    fixed: dict[int, float] = {}
    try:
        while run.remaining_s > 0.0:
            began = now()
            relaxation = master.relax()
            if generation.diving_tolerance is not None:
                for priced in generation.price_at(relaxation, generation.diving_tolerance, generation.first_node_limit):
                    generation.add(priced.patterns)
                relaxation = master.relax()
            weight = relaxation.weight
            open_weight = weight - np.array([fixed.get(column, 0.0) for column in range(len(weight))])
            part = open_weight - np.floor(open_weight + 1.0 - SURE)
            whole = np.flatnonzero(open_weight >= SURE)
            for sure in whole.tolist():
                fixed[sure] = fixed.get(sure, 0.0) + math.floor(open_weight[sure] + 1.0 - SURE)
                master.fix(sure, fixed[sure])
            if part.max(initial=0.0) < 1.0 - SURE:
                counts = {c: round(w) for c, w in enumerate(weight.tolist()) if round(w) > 0}
                return counts if master.complete() else None
            step_s = now() - began
            at_once = math.ceil(part.sum() * step_s / max(run.remaining_s / 2.0, step_s))
            for column in _apart(generation, part, at_once):
                fixed[column] = fixed.get(column, 0.0) + 1.0
                master.fix(column, fixed[column])
        return None
    finally:
        for column in fixed:
            master.release(column)


def _apart(generation: Generation, part: NDArray[np.float64], most: int) -> list[int]:
    """Return at most ``most`` columns of the largest parts, of which no two hold workloads of one class."""
    chosen: list[int] = []
    held: set[int] = set()
    for column in np.argsort(-part, kind="stable").tolist():
        classes = {int(generation.class_of[w]) for w, _, _ in generation.master.patterns[column].members}
        if len(chosen) == most or part[column] < 1.0 - SURE:
            break
        if held.isdisjoint(classes):
            chosen.append(column)
            held |= classes
    return chosen

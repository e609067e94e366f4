"""Whole GPUs from the linear relaxation: diving with pricing, and the restricted master over integers."""

import math

import numpy as np

from formulations.colgen.generation import Generation

SURE = 0.999
"""Weights at or above this are taken as whole."""


def dive(generation: Generation) -> dict[int, int] | None:
    """Fix the largest weights one after another, generating patterns for what is left.

    Parameters
    ----------
    generation
        With its linear relaxation solved.

    Returns
    -------
    dict or None
        GPUs of each pattern, or ``None`` if time ran out or the pool did.
    """
    master, run = generation.master, generation.run
    fixed: dict[int, float] = {}
    try:
        while run.remaining_s > 0.0:
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
            largest = int(np.argmax(part))
            fixed[largest] = fixed.get(largest, 0.0) + 1.0
            master.fix(largest, fixed[largest])
        return None
    finally:
        for column in fixed:
            master.release(column)

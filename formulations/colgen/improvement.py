"""Local search on one GPU by single changes, for all plan classes.

A sweep visits the gpulets in turn. At each gpulet it tries the changes of the plan class, and then moves steps of share
to this gpulet from the others. A change stays if it adds worth.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from instances.compiled import compiled

LEAST_GAIN = 1e-9
"""Relative gain below which a GPU is not changed."""


@compiled
def exceeds(worth: float, best: float) -> bool:
    """Return whether a worth exceeds the best one so far by more than rounding; any worth exceeds -inf."""
    return worth > best + LEAST_GAIN * abs(best) if np.isfinite(best) else worth > best


def improvement(worth_of: Callable[..., float], change: Callable[..., float], sweeps: int) -> Callable[..., float]:
    """Return the search of a plan class.

    The search takes the demand on the GPU type, the terms by which ``worth_of`` values a GPU, and the contents of a
    GPU, which it improves. It returns the worth.

    Parameters
    ----------
    worth_of
        Kernel: returns the worth of a GPU from demand, terms and contents; -inf if it is infeasible. ``units`` of the
        contents has the share of each gpulet, 0 if it is unused.
    change
        Kernel: changes one gpulet if that adds worth, and returns the worth. Its arguments are demand, terms, contents,
        the gpulet, and the worth so far.
    sweeps
        Largest number of sweeps.
    """

    @compiled
    def improve(demand: DemandOnGpu, terms: Any, contents: Any) -> float:
        best = worth_of(demand, terms, contents)
        for _ in range(sweeps):
            former_worth = best
            for gpulet in range(len(contents.units)):
                best = change(demand, terms, contents, gpulet, best)
                for giver in range(-1, len(contents.units)):
                    best = move_share(demand, terms, contents, gpulet, giver, best)
            if not exceeds(best, former_worth):
                break
        return best

    @compiled
    def move_share(demand: DemandOnGpu, terms: Any, contents: Any, taker: int, giver: int, best: float) -> float:
        """Move a step of share to gpulet ``taker`` from ``giver``, or from the free units (-1), if that adds worth."""
        tables, units = demand.tables, contents.units
        if giver == taker or units[taker] == 0 or (giver >= 0 and units[giver] == 0):
            return best
        grown, shrunk = tables.next_share[units[taker]], 0
        if giver >= 0:
            share_position = np.searchsorted(tables.permitted, units[giver])
            shrunk = tables.permitted[share_position - 1] if share_position > 0 else 0
        if grown > tables.share_units or (giver >= 0 and shrunk == 0):
            return best
        former_units, former_giver_units = units[taker], units[giver]
        units[taker] = grown
        if giver >= 0:
            units[giver] = shrunk
        worth = worth_of(demand, terms, contents)
        if exceeds(worth, best):
            return worth
        units[taker] = former_units
        if giver >= 0:
            units[giver] = former_giver_units
        return best

    return improve

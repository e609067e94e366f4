"""Ruin and recreate: empty a few GPUs, place what was on them again, keep what leaves no more waiting."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from heuristics.placement import Placement
from instances import Objective

EMPTIED = 2
"""GPUs emptied in a round, at most."""

THINNED = 3
"""GPUs that lose about half of their residents in a round, at most."""

BLINK = 0.05
"""Probability with which a possible place is overlooked, so that the same ruin is not always repaired alike."""

NOISE = 0.5
"""Standard deviation of the logarithm by which sizes are blurred when what waits is put in order."""


@dataclass
class Repacking:
    """A search that makes what waits as little as it can (Schrimpf et al., J. Comput. Phys. 159, 2000).

    Attributes
    ----------
    placement
        Where it stands.
    random
        Who is moved.
    deadline
        ``time.monotonic()`` at which it stops.
    rounds
        Rounds left.
    cost_limit
        The GPUs in use may not cost more per hour.
    """

    placement: Placement
    random: np.random.Generator
    deadline: float
    rounds: int
    cost_limit: float = inf

    def run(self, improved: Callable[[], None] = lambda: None) -> None:
        """Search until nothing waits or the time or the rounds are over.

        Parameters
        ----------
        improved
            Called whenever less waits than ever before.
        """
        least = waiting(self.placement)
        while least > 0.0 and self.rounds > 0 and time.monotonic() < self.deadline:
            self.rounds -= 1
            repacked = self._repacked(self.placement)
            now = waiting(repacked)
            if now > least:
                continue
            self.placement = repacked
            if now < least:
                least = now
                improved()

    def _repacked(self, placement: Placement) -> Placement:
        repacked, random = placement.copied(), self.random
        used = np.array([np.count_nonzero(fleet.residents) for fleet in repacked.fleets])
        if used.any():
            o = int(random.choice(len(used), p=used / used.sum())) if len(used) > 1 else 0
            emptied = 1 + int(random.random() * EMPTIED)
            repacked.take_out(o, random, emptied, int(random.random() * (THINNED + 1)))
        order_waiting(repacked, random, NOISE)
        types = [0] if len(used) == 1 else random.permutation(len(used)).tolist()
        repacked.insert(types, random, blink=BLINK, cost_limit=self.cost_limit)
        return repacked


def waiting(placement: Placement) -> float:
    """Return how much waits: requests per second not served under ``goodput``, otherwise parts of GPUs."""
    market = placement.market
    if market.instance.objective is not Objective.GOODPUT:
        return float(market.size[placement.waiting].sum())
    unserved = np.array(market.items.rate_rps)
    for fleet, options in zip(placement.fleets, market.options, strict=True):
        row = fleet.row[np.arange(fleet.row.shape[1]) < fleet.residents[:, None]]
        unserved[options.item[row]] -= options.rate_rps[row]
    # Differences of equal rates may leave a trace
    return float(np.maximum(unserved, 0.0).sum())


def order_waiting(placement: Placement, random: np.random.Generator, noise: float) -> None:
    """Put what waits in order: large before small, under ``goodput`` most requests per share first.

    Parameters
    ----------
    placement
        Whose waiting items are put in order.
    random
        Blurs the order.
    noise
        Standard deviation of the logarithm of the blur; 0 for the exact order, ties as they stand.
    """
    market, items = placement.market, placement.waiting
    first = market.size[items]
    if market.instance.objective is Objective.GOODPUT:
        first = market.items.rate_rps[items] / first
    if noise > 0.0:
        first = first * np.exp(noise * random.standard_normal(len(items)))
    placement.waiting = items[np.argsort(-first, kind="stable")]

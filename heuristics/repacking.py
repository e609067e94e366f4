"""Ruin and recreate: empty a few GPUs, place their residents again, and keep the result unless it is worse."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from heuristics.placement import Placement
from instances import Objective

EMPTIED = 2
"""Largest number of GPUs emptied in a round."""

THINNED = 3
"""Largest number of GPUs that lose about half of their residents in a round."""

BLINK = 0.05
"""Probability of skipping a possible place, so that equal ruins are not always repaired in the same way."""

NOISE = 0.5
"""Standard deviation of the logarithmic noise on the sizes that order the waiting items."""


@dataclass
class Repacking:
    """Ruin-and-recreate search that minimises the waiting items (Schrimpf et al., J. Comput. Phys. 159, 2000).

    Attributes
    ----------
    placement
        Current placement.
    random
        Random generator of the moves.
    deadline
        ``time.monotonic()`` value at which the search stops.
    rounds
        Remaining rounds.
    cost_limit
        Largest price per hour of the GPUs in use.
    """

    placement: Placement
    random: np.random.Generator
    deadline: float
    rounds: int
    cost_limit: float = inf

    def run(self, improved: Callable[[], None] = lambda: None) -> None:
        """Search until no item waits, or the time or the rounds are used up.

        Parameters
        ----------
        improved
            Called whenever the amount that waits reaches a new minimum.
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
    """Return the waiting amount: unserved requests per second under ``goodput``, otherwise fractions of GPUs."""
    market = placement.market
    if market.instance.objective is not Objective.GOODPUT:
        return float(market.size[placement.waiting].sum())
    unserved = np.array(market.items.rate_rps)
    for fleet, options in zip(placement.fleets, market.options, strict=True):
        row = fleet.row[np.arange(fleet.row.shape[1]) < fleet.residents[:, None]]
        unserved[options.item[row]] -= options.rate_rps[row]
    # Differences of equal rates may leave a rounding error
    return float(np.maximum(unserved, 0.0).sum())


def order_waiting(placement: Placement, random: np.random.Generator, noise: float) -> None:
    """Order the waiting items: large before small, under ``goodput`` by decreasing requests per share.

    Parameters
    ----------
    placement
        Placement whose waiting items are ordered.
    random
        Random generator of the noise.
    noise
        Standard deviation of the logarithmic noise; 0 for the exact order with ties unchanged.
    """
    market, items = placement.market, placement.waiting
    first = market.size[items]
    if market.instance.objective is Objective.GOODPUT:
        first = market.items.rate_rps[items] / first
    if noise > 0.0:
        first = first * np.exp(noise * random.standard_normal(len(items)))
    placement.waiting = items[np.argsort(-first, kind="stable")]

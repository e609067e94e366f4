"""Groups with mean utilisations whose sum is closest to the capacity (MediatorDNN's bin packing, Sec. IV-A)."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from heuristics.mediator.grouping import CAPACITY, Fits
from instances.arrays import Floats

STEPS = 10_000
"""Number of steps into which the capacity is divided; utilisations are rounded up to steps, so no sum exceeds it."""

TRIES = 10_000
"""Largest number of tests of memory for one group; then the best group so far counts."""


def fill_closest(mean: Floats, fits: Fits) -> list[list[int]]:
    """Fill one group after the other with the positions whose sum is closest to the capacity, without exceeding it.

    Ties are broken in favour of the group that contains the busiest positions. A position that exceeds the capacity
    alone is a group of its own.
    """
    steps = np.ceil(mean / CAPACITY * STEPS - 1e-9).astype(np.int64).tolist()
    ungrouped = np.argsort(-mean, kind="stable").tolist()
    groups = []
    while ungrouped:
        group = _ClosestGroup(steps, ungrouped, fits).best() or ungrouped[:1]
        ungrouped = [i for i in ungrouped if i not in group]
        groups.append(group)
    return groups


class _ClosestGroup:
    """Search for the group with the largest sum up to the capacity, among positions in descending order."""

    def __init__(self, steps: Sequence[int], candidates: Sequence[int], fits: Fits) -> None:
        self.steps, self.candidates, self.fits = steps, candidates, fits
        self.tries_left = TRIES
        within_capacity = (1 << (STEPS + 1)) - 1

        def with_candidate(sums: int, i: int) -> int:
            return (sums | sums << steps[i]) & within_capacity

        # Bit s of entry n: some of the candidates from the nth on add up to s steps
        self.reachable = list(accumulate(reversed(candidates), with_candidate, initial=1))[::-1]
        self.best_steps, self.best_group = -1, list[int]()

    def best(self) -> list[int]:
        """Return the group, empty if no candidate is within the capacity."""
        for total in range(STEPS, -1, -1):
            if self.tries_left == 0 or total <= self.best_steps:
                break
            if self._reaches(0, total) and self._extend([], 0, total):
                break
        return self.best_group

    def _reaches(self, first: int, remaining: int) -> bool:
        """Return whether some of the candidates from ``first`` on add up to ``remaining`` steps."""
        return bool(self.reachable[first] >> remaining & 1)

    def _extend(self, group: list[int], first: int, remaining: int) -> bool:
        """Extend a group by candidates from ``first`` on that add up to ``remaining``; return whether that succeeds."""
        filled = sum(self.steps[i] for i in group)
        if group and filled > self.best_steps:
            self.best_steps, self.best_group = filled, list(group)
        if remaining == 0 and group:
            return True
        for n in range(first, len(self.candidates)):
            i = self.candidates[n]
            if not self._reaches(n, remaining) or self.tries_left == 0:
                return False
            if self.steps[i] > remaining or not self._reaches(n + 1, remaining - self.steps[i]):
                continue
            self.tries_left -= bool(group)  # a group of one needs no test
            if (not group or self.fits([*group, i])) and self._extend([*group, i], n + 1, remaining - self.steps[i]):
                return True
        return False

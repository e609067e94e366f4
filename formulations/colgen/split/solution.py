"""One run for ``split``: patterns of spatial plans, the bound, then repeated dives to integer solutions."""

import math
from dataclasses import replace

import numpy as np

from formulations.colgen.clock import now
from formulations.colgen.restricted_master import Pattern, Relaxation, RestrictedMaster
from formulations.colgen.solution import SURE, Solution
from formulations.colgen.split.generation import SplitGeneration
from instances.arrays import Floats

PATIENCE = 20
"""Number of dives without a better plan after which the run ends."""


class SplitSolution(Solution):
    """Run with repeated dives: GPUs are fixed one after another and priced for the remaining parts of workloads."""

    generation: SplitGeneration

    def _to_whole_gpus(self) -> None:
        if self.generation.relaxation is None or self.proven():
            return
        self._round()
        self._dive()
        self._round()

    def _close(self) -> None:
        """Repeat randomised dives; each one also uses the patterns of all earlier dives."""
        random, idle = np.random.default_rng(self.run.seed), 0
        while idle < PATIENCE and not self.proven() and self.run.remaining_s > 0.0:
            before = self.value
            self._dive(random)
            self._round()
            idle = 0 if self.value < before else idle + 1

    def _dive(self, random: np.random.Generator | None = None) -> None:
        patterns = None if self.proven() else dive(self.generation, random)
        if patterns is not None:
            self._accept(self.generation.master.counts(patterns))


NOTHING = 1e-9
"""Remaining part of a workload that is neglected."""

NEW_PART = 0.9
"""Least fraction of a pattern's coverage that the other GPUs fixed in the same step must leave uncovered."""

ROUNDS, REGIONS = 3, 40
"""Largest number of pricing rounds in a step, and of regions that each call halves."""

DISTURBANCE = (0.5, 1.5)
"""Range of the random factors on duals."""


def dive(generation: SplitGeneration, random: np.random.Generator | None = None) -> list[Pattern] | None:
    """Fix the largest weights step by step, and price for the remaining part of every workload.

    Parameters
    ----------
    generation
        Column generation; its master receives the patterns found.
    random
        Disturbs the duals and the weights, so that repeated dives differ; ``None`` for no disturbance.

    Returns
    -------
    list or None
        A pattern for each GPU; ``None`` if the time or the pool was exhausted.
    """
    run = generation.run
    left, free = generation.copies.copy(), generation.count.copy()
    chosen: list[Pattern] = []
    while run.remaining_s > 0.0:
        began = now()
        master = _residual(generation, left, free)
        relaxation = master.relax()
        for _ in range(ROUNDS):
            if not _price(generation, master, _disturbed(relaxation, random), left):
                break
            relaxation = master.relax()
        weight = relaxation.weight
        step_s = now() - began
        at_once = max(1, math.ceil(weight.sum() * step_s / max(run.remaining_s / 2.0, step_s)))
        order = np.argsort(-weight if random is None else -weight * random.random(len(weight)), kind="stable")
        largest = [(master.patterns[c], float(weight[c])) for c in order.tolist() if weight[c] > NOTHING]
        taken = _taken(generation, largest, at_once, left, free)
        chosen += taken
        for pattern in taken:
            free[pattern.pool] -= 1.0
            left = np.maximum(0.0, left - generation.amounts(pattern))
        left[left < NOTHING] = 0.0
        if not left.any():
            return chosen
        if not taken:
            return None if generation.minimised else chosen
    return None


def _taken(
    generation: SplitGeneration, largest: list[tuple[Pattern, float]], at_once: int, left: Floats, free: Floats
) -> list[Pattern]:
    """Return patterns of the largest weights that hardly overlap: at most ``at_once``, and all of integer weight."""
    left_over, free, taken = left.copy(), free.copy(), []
    for number, (pattern, weight) in enumerate(largest):
        amounts = np.minimum(generation.amounts(pattern), left)
        if number >= at_once and weight < SURE:
            break
        for _ in range(max(1, int(weight + 1.0 - SURE))):
            if free[pattern.pool] >= 1.0 and np.minimum(amounts, left_over).sum() >= NEW_PART * amounts.sum():
                taken.append(pattern)
                free[pattern.pool] -= 1.0
                left_over = np.maximum(0.0, left_over - amounts)
    return taken


def _disturbed(relaxation: Relaxation, random: np.random.Generator | None) -> Relaxation:
    if random is None:
        return relaxation
    factor = random.uniform(*DISTURBANCE, len(relaxation.workload_dual))
    return replace(relaxation, workload_dual=relaxation.workload_dual * factor)


def _residual(generation: SplitGeneration, left: Floats, free: Floats) -> RestrictedMaster:
    """Return the restricted master of the remaining parts, with the patterns known so far."""
    asked = generation.asked
    least = np.minimum(asked.least, left) if generation.minimised else asked.least
    most = asked.most if generation.minimised else left
    master = RestrictedMaster(replace(asked, least=least, most=most, pool_count=free), generation.run.threads)
    for pattern in generation.master.patterns:
        _add(generation, master, pattern, left)
    return master


def _add(generation: SplitGeneration, master: RestrictedMaster, pattern: Pattern, left: Floats) -> bool:
    amounts = np.minimum(generation.amounts(pattern), left)
    return bool(amounts.any()) and master.add(pattern, generation.cost_of_amounts(pattern.pool, amounts), amounts)


def _price(generation: SplitGeneration, master: RestrictedMaster, relaxation: Relaxation, left: Floats) -> int:
    """Add patterns that gain to both masters; return how many are new in ``master``."""
    added = 0
    for priced in generation.price_at(relaxation, generation.diving_tolerance, REGIONS, left):
        generation.add(priced.patterns)
        added += sum(_add(generation, master, pattern, left) for pattern in priced.patterns)
    return added

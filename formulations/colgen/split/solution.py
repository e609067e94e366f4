"""One run for ``split``: patterns of spatial plans, bound, then repeated dives to integer solutions."""

from typing import ClassVar

import numpy as np

from formulations.colgen.solution import Solution
from formulations.colgen.split.diving import dive
from formulations.colgen.split.generation import SplitGeneration

PATIENCE = 20
"""Number of dives without a better plan after which the run ends."""


class SplitSolution(Solution):
    """Run with repeated dives: GPUs are fixed one after another and priced for the remaining parts of workloads."""

    generation: SplitGeneration
    # Pricing rounds each term of the bound up, and no enumeration replaces it by an exact value.
    agreement: ClassVar[float] = 1e-8

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

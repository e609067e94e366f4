"""Choices in whole numbers, rounded so that whatever is feasible stays feasible."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, lcm

import numpy as np

from formulations.sized_choices import SizedChoices
from instances.arrays import Ints
from instances.tables import Tables

DEMAND_RESOLUTION = 100
"""Steps per percent of L2 and DRAM and per watt."""

CONDITION_RESOLUTION = 1_000_000_000
"""Steps per size of a condition's limit."""

MEMORY_RESOLUTION = 16
"""Steps per MiB."""

EXACT_LIMIT = 1 << 40
"""Weights are exact fractions as long as their sums stay below this."""


@dataclass(frozen=True, slots=True)
class WholeChoices:
    """The choices of one workload on one GPU type; see ``SizedChoices`` for the rows.

    Demands and the coefficients of the conditions are rounded down, limits up: a GPU that is feasible is feasible in
    whole numbers too, and only hair's breadths make it the other way round.

    Attributes
    ----------
    units, step, memory
        Shape (choices,); memory in steps.
    demand
        L2, DRAM and power in steps, shape (choices, 3).
    conditions
        Coefficients of N and of the others' demands, and limit; shape (choices, 2, 5).
    chain
        Shape (choices,). Choices of the same batch and rate, which differ by their share only, follow one another and
        have the same number here.
    shape
        Shape (choices,): number of the choice's batch and share, which decide all but the conditions.
    """

    units: Ints
    step: Ints
    memory: Ints
    demand: Ints
    conditions: Ints
    chain: Ints
    shape: Ints

    def __len__(self) -> int:
        return len(self.units)

    @classmethod
    def of(cls, choices: SizedChoices) -> "WholeChoices":
        """Round ``choices``."""
        rows = choices.conditions
        size = np.maximum(np.abs(rows[:, :, 4]), rows[:, :, 0])
        scaled = rows * (CONDITION_RESOLUTION / np.where(size > 0.0, size, 1.0))[:, :, None]
        scaled[:, :, 1:4] /= DEMAND_RESOLUTION
        whole = np.floor(scaled)
        whole[:, :, 4] += 2.0  # one for the fraction cut off, one for the rounding of floating-point numbers
        starts = np.ones(len(choices), dtype=bool)
        starts[1:] = (np.diff(choices.batch) != 0) | (np.diff(choices.rate_rps) != 0)
        return cls(
            choices.units,
            choices.step,
            np.floor(choices.memory_mib * MEMORY_RESOLUTION).astype(np.int64),
            np.floor(choices.demand * DEMAND_RESOLUTION).astype(np.int64),
            whole.astype(np.int64),
            np.cumsum(starts) - 1,
            np.unique(np.column_stack((choices.batch, choices.units)), axis=0, return_inverse=True)[1].reshape(-1),
        )


def memory_limit(tables: Tables) -> int:
    """Return the memory of a GPU in steps."""
    return ceil(tables.memory_limit_mib * MEMORY_RESOLUTION)


@dataclass(frozen=True, slots=True)
class Weights:
    """Prices or rates as whole numbers.

    Attributes
    ----------
    whole, scale
        Each is ``whole / scale``, or rounded towards the optimistic side.
    exact
        Whether none is rounded.
    """

    whole: tuple[int, ...]
    scale: Fraction
    exact: bool

    @classmethod
    def of(cls, values: Sequence[Fraction], largest_sum: Fraction, round_up: bool) -> "Weights":
        """Scale ``values``.

        Parameters
        ----------
        values
            Not negative.
        largest_sum
            No sum of theirs that matters is larger.
        round_up
            Which way to round where the exact fractions are too fine: up to maximise, down to minimise.
        """
        scale = Fraction(lcm(*(value.denominator for value in values)))
        exact = largest_sum * scale < EXACT_LIMIT
        if not exact:
            scale = EXACT_LIMIT / largest_sum
        to_whole = ceil if round_up else floor
        return cls(tuple(to_whole(value * scale) for value in values), scale, exact)

    def value(self, whole: int) -> float:
        """Return the value of a sum of weights."""
        return float(whole / self.scale)

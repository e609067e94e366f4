"""Memory, demands and conditions of configurations in integers, rounded so that every feasible GPU stays feasible.

Demands and coefficients of the conditions are rounded down, limits up. An infeasible GPU is feasible in integers only
if it exceeds its limits by no more than the rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, lcm

import numpy as np

from instances.arrays import Floats, Ints
from instances.configurations import Configurations
from instances.tables import Tables

DEMAND_RESOLUTION = 100
"""Steps per percent of L2 and DRAM and per watt."""

CONDITION_RESOLUTION = 1_000_000_000
"""Largest number of steps of a condition's limit, and of its first coefficient."""

LARGEST_ROW = 2**31 - 2**16
"""Largest sum of a condition's limit and of each coefficient times the range of its variable; a little below 2**31.

Some code in presolve of CP-SAT 9.15 computes such sums in 32 bits.
"""

MEMORY_RESOLUTION = 16
"""Steps per MiB."""

EXACT_LIMIT = 1 << 40
"""Largest sum of integer weights. Weights whose sum would be larger are scaled down to it and rounded."""


def whole_memory(configurations: Configurations, tables: Tables) -> Ints:
    """Return the memory of each configuration in steps, rounded down."""
    return np.floor(configurations.memory_mib(tables) * MEMORY_RESOLUTION).astype(np.int64)


def whole_demand(configurations: Configurations, tables: Tables) -> Ints:
    """Return L2, DRAM and power of each configuration in steps, rounded down, shape (configurations, 3)."""
    return np.floor(configurations.demand(tables) * DEMAND_RESOLUTION).astype(np.int64)


def whole_conditions(configurations: Configurations, tables: Tables, most_amounts: Floats) -> Ints:
    """Return ``Configurations.conditions`` in integers: coefficients rounded down, limits up.

    ``most_amounts`` bounds the number of residents of a GPU and the sums of their L2, DRAM and power, shape (4,).
    """
    conditions = configurations.conditions(tables)
    limits = np.abs(conditions[:, :, 4])
    largest_terms = np.maximum(limits, conditions[:, :, 0])
    steps = CONDITION_RESOLUTION / np.where(largest_terms > 0.0, largest_terms, 1.0)
    # Twice: once for the sums over all residents, once for the workload's own demands, which the model subtracts.
    row_reach = limits + 2.0 * (conditions[:, :, :4] @ most_amounts)
    steps = np.minimum(steps, LARGEST_ROW / np.where(row_reach > 0.0, row_reach, 1.0))
    scaled = conditions * steps[:, :, None]
    scaled[:, :, 1:4] /= DEMAND_RESOLUTION
    rounded = np.floor(scaled)
    rounded[:, :, 4] += 2.0  # one for the fraction cut off, one for the rounding of floating-point numbers
    return rounded.astype(np.int64)


def memory_limit(tables: Tables) -> int:
    """Return the memory of a GPU in steps."""
    return ceil(tables.memory_limit_mib * MEMORY_RESOLUTION)


@dataclass(frozen=True, slots=True)
class Weights:
    """Prices or rates as integers.

    Attributes
    ----------
    whole, scale
        Each value is ``whole / scale``, apart from rounding in the direction that ``of`` is given.
    exact
        Whether no value is rounded.
    """

    whole: tuple[int, ...]
    scale: Fraction
    exact: bool

    @classmethod
    def of(cls, values: Sequence[Fraction], largest_sum: Fraction, round_up: bool) -> "Weights":
        """Scale nonnegative values.

        Parameters
        ----------
        largest_sum
            Upper bound on every sum of values that occurs.
        round_up
            Direction of rounding if the exact fractions are too fine: up to maximise, down to minimise.
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

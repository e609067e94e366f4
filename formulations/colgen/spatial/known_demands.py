"""Least shares and demands of choices at floors of interference on a grid: a fast first test of a set of choices.

Most sets that pricing asks about do not fit, and coarse floors already show this. The demands at a point of the grid do
not depend on the set, so they are computed when a set first needs them, and are kept.
"""

from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.fitting import least_of_options
from formulations.colgen.spatial.batch_choice import AXES, DRAM, L2, POWER
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables

MOST_POINTS, POWER_POINTS = 64, 4
"""Points of the axes of L2 and DRAM, if choices are few, and of power, if GPUs are throttled."""

MOST_CELLS = 4_000_000
"""Largest number of points for all choices and numbers of residents: 56 MB. With more, the grid is coarser."""

LARGEST_DEMAND = 2.0
"""Largest L2 and DRAM demands on the grid, in multiples of one workload's; the last point stands for all above."""

_BELOW = 1.0 - 1e-6
"""Factor on demands, which are kept with seven digits, so that none is rounded up."""

_UNKNOWN = 0


class KnownDemands(NamedTuple):
    """Least shares and demands by choice, number of residents, and point of L2, DRAM and power.

    Attributes
    ----------
    units
        Least share over the options of the choice, or ``_UNKNOWN``; more than the GPU if no option fits.
    demand
        Least demand on each axis over the options that fit; the axes come last.
    step
        Distance of the points of each axis. Point 0 of the power stands for all floors at which no GPU is throttled.
    """

    units: NDArray[np.int16]
    demand: NDArray[np.float32]
    step: Floats

    @classmethod
    def of(cls, tables: Tables, choices: int, most_residents: int) -> "KnownDemands":
        """Allocate the grid of one GPU type for this number of choices and for at most ``most_residents``."""
        rows = max(1, choices * (most_residents + 1))
        power_points = POWER_POINTS if tables.throttle_per_w < 0.0 and rows * POWER_POINTS <= MOST_CELLS else 1
        interfering = [bool(np.any(tables.alpha_l2 > 0.0)), bool(np.any(tables.alpha_dram > 0.0))]
        cells = max(1, MOST_CELLS // (rows * power_points))
        most_points = min(MOST_POINTS, isqrt(cells) if all(interfering) else cells)
        points = [most_points if interferes else 1 for interferes in interfering]
        shape = choices, most_residents + 1, *points, power_points
        largest = [float(demand.max(initial=0.0)) for demand in (tables.l2_pct, tables.dram_pct, tables.power_w)]
        step = [LARGEST_DEMAND * largest[L2] / points[L2], LARGEST_DEMAND * largest[DRAM] / points[DRAM]]
        return cls(
            np.full(shape, _UNKNOWN, dtype=np.int16),
            np.empty((*shape, AXES), dtype=np.float32),
            np.maximum([*step, largest[POWER] / power_points], 1e-9),
        )

    def forget(self, choice: int) -> None:
        """Forget the demands of a choice whose budgets have changed."""
        self.units[choice] = _UNKNOWN


@compiled
def floors_of_fit(
    known: KnownDemands,
    tables: Tables,
    chosen: Ints,
    model: Ints,
    first: Ints,
    end: Ints,
    batch: Ints,
    lower: Ints,
    budget_ms: Floats,
    floors: Floats,
) -> bool:
    """Return whether a set of choices may fit on a GPU; ``False`` is a proof.

    Parameters
    ----------
    chosen, model
        The choices, and the models of their workloads, shape (residents,).
    first, end
        Options of each choice.
    batch, lower, budget_ms
        Batch, least share alone and budgets by share of each option.
    floors
        Output: floors of the sums of the demands on the axes, shape (3,).
    """
    residents, sums, at = len(chosen), np.empty(AXES), np.zeros(AXES, dtype=np.int64)
    free_w = max(0.0, tables.max_power_w - tables.idle_power_w)
    floors[:], rises = 0.0, True
    while rises:
        sums[:], total = 0.0, 0
        for j in range(residents):
            k = chosen[j]
            if known.units[k, residents, at[L2], at[DRAM], at[POWER]] == _UNKNOWN:
                _compute(known, tables, k, residents, at, free_w, model[j], first[j], end[j], batch, lower, budget_ms)
            total += known.units[k, residents, at[L2], at[DRAM], at[POWER]]
            if total > tables.share_units:
                return False
            for axis in range(AXES):
                sums[axis] += known.demand[k, residents, at[L2], at[DRAM], at[POWER], axis]
        rises = False
        for axis in range(AXES):
            floors[axis] = max(floors[axis], sums[axis])
            above = max(0.0, floors[axis] - (free_w if axis == POWER else 0.0))
            point = min(int(above / known.step[axis]), known.units.shape[2 + axis] - 1)
            if point > at[axis]:
                at[axis], rises = point, True
    return True


@compiled
def _compute(
    known: KnownDemands,
    tables: Tables,
    k: int,
    residents: int,
    at: Ints,
    free_w: float,
    model: int,
    first: int,
    end: int,
    batch: Ints,
    lower: Ints,
    budget_ms: Floats,
) -> None:
    """Compute the least share and demands of choice ``k`` at one point."""
    power_floor = free_w + at[POWER] * known.step[POWER] if at[POWER] > 0 else 0.0
    l2_floor, dram_floor = at[L2] * known.step[L2], at[DRAM] * known.step[DRAM]
    units, l2, dram, power, _ = least_of_options(
        tables, model, first, end, batch, lower, budget_ms, residents, l2_floor, power_floor, dram_floor
    )
    known.units[k, residents, at[L2], at[DRAM], at[POWER]] = units
    demand = known.demand[k, residents, at[L2], at[DRAM], at[POWER]]
    demand[L2], demand[DRAM], demand[POWER] = l2 * _BELOW, dram * _BELOW, power * _BELOW

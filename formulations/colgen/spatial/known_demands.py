"""Least shares and demands of choices at floors of interference on a grid: a fast first test of a set of choices.

Most sets that pricing asks about do not fit, and coarse floors already show this. The demands at a point of the grid do
not depend on the set, so they are computed when a set first needs them, and are kept.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.fitting import least_of_options
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables

CONTENTION_STEPS, POWER_STEPS = 64, 8
"""Points of the grid of each axis, if choices are few."""

MOST_CELLS = 2_000_000
"""Largest number of points for all choices and numbers of residents: 36 MB. With more, the grid is coarser."""

LARGEST_CONTENTION = 4.0
"""Largest contention on the grid, in multiples of that of one workload; the last point stands for all above."""

_UNKNOWN = 0


class KnownDemands(NamedTuple):
    """Least shares and demands by choice, number of residents, and point of contention and power.

    Attributes
    ----------
    units
        Least share over the options of the choice, or ``_UNKNOWN``; more than the GPU if no option fits.
    contention, power
        Least demands over the options that fit.
    contention_step, power_step
        Distances of the points. Point 0 of the power stands for all floors at which no GPU is throttled.
    """

    units: NDArray[np.int16]
    contention: Floats
    power: Floats
    contention_step: float
    power_step: float

    @classmethod
    def of(cls, merged: Tables, choices: int, most_residents: int) -> "KnownDemands":
        """Allocate the grid of one GPU type for this number of choices and for at most ``most_residents``."""
        steps, power_steps = CONTENTION_STEPS, POWER_STEPS if merged.throttle_per_w < 0.0 else 1
        while choices * (most_residents + 1) * steps * power_steps > MOST_CELLS and steps > 1:
            steps, power_steps = steps // 2, max(1, power_steps // 2)
        shape = choices, most_residents + 1, steps, power_steps
        largest_pct, largest_w = float(merged.l2_pct.max(initial=0.0)), float(merged.power_w.max(initial=0.0))
        return cls(
            np.full(shape, _UNKNOWN, dtype=np.int16),
            np.empty(shape),
            np.empty(shape),
            max(LARGEST_CONTENTION * largest_pct / steps, 1e-9),
            max(largest_w / power_steps, 1e-9),
        )

    def forget(self, choice: int) -> None:
        """Forget the demands of a choice whose budgets have changed."""
        self.units[choice] = _UNKNOWN


@compiled
def floors_of_fit(
    known: KnownDemands,
    merged: Tables,
    chosen: Ints,
    model: Ints,
    first: Ints,
    end: Ints,
    batch: Ints,
    lower: Ints,
    budget_ms: Floats,
) -> tuple[bool, float, float]:
    """Return whether a set of choices may fit on a GPU, and floors of its contention and power; ``False`` is a proof.

    Parameters
    ----------
    merged
        Tables of the GPU type with one growth.
    chosen, model
        The choices, and the models of their workloads, shape (residents,).
    first, end
        Options of each choice.
    batch, lower, budget_ms
        Batch, least share alone and budgets by share of each option.
    """
    residents = len(chosen)
    contention_floor, power_floor = 0.0, 0.0
    contention_at, power_at = 0, 0
    free_w = max(0.0, merged.max_power_w - merged.idle_power_w)
    while True:
        contention, power, total = 0.0, 0.0, 0
        for j in range(residents):
            k = chosen[j]
            if known.units[k, residents, contention_at, power_at] == _UNKNOWN:
                _compute(
                    known,
                    merged,
                    k,
                    residents,
                    contention_at,
                    power_at,
                    free_w,
                    model[j],
                    first[j],
                    end[j],
                    batch,
                    lower,
                    budget_ms,
                )
            total += known.units[k, residents, contention_at, power_at]
            contention += known.contention[k, residents, contention_at, power_at]
            power += known.power[k, residents, contention_at, power_at]
            if total > merged.share_units:
                return False, contention_floor, power_floor
        contention_floor, power_floor = max(contention, contention_floor), max(power, power_floor)
        contention_next = min(int(contention_floor / known.contention_step), known.units.shape[2] - 1)
        power_next = 0
        if power_floor > free_w:
            power_next = min(int((power_floor - free_w) / known.power_step), known.units.shape[3] - 1)
        if contention_next <= contention_at and power_next <= power_at:
            return True, contention_floor, power_floor
        contention_at, power_at = max(contention_next, contention_at), max(power_next, power_at)


@compiled
def _compute(
    known: KnownDemands,
    merged: Tables,
    k: int,
    residents: int,
    contention_at: int,
    power_at: int,
    free_w: float,
    model: int,
    first: int,
    end: int,
    batch: Ints,
    lower: Ints,
    budget_ms: Floats,
) -> None:
    """Compute the least share and demands of choice ``k`` at one point."""
    contention_floor = contention_at * known.contention_step
    power_floor = free_w + power_at * known.power_step if power_at > 0 else 0.0
    units, contention, power, _ = least_of_options(
        merged, model, first, end, batch, lower, budget_ms, residents, contention_floor, power_floor
    )
    known.units[k, residents, contention_at, power_at] = units
    known.contention[k, residents, contention_at, power_at] = contention
    known.power[k, residents, contention_at, power_at] = power

"""Boxes of total interference on one GPU, shared by the pricing problems of all plan classes.

A box fixes the number of residents N, or a range of it, and ranges of the totals C (L2) and P (power). Least demands
inside a box bound the worth of its GPUs. Lagrange multipliers charge for the ceilings of the box.

The boxes have one axis for L2 and DRAM. Beside others a batch takes ``1 + a_l2 C + a_dram D`` times as long. With
weights ``v + w = 1`` and ``a = min(a_l2 / v, a_dram / w)`` the factor is at least ``1 + a (v C + w D)``. The two are
equal if every model's growths have the ratio v : w, as they do if one pair of growths was fitted for a whole GPU type.
In all modules on boxes, "L2" means the sum ``v C + w D``.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.tables import Tables
from instances.tolerance import MARGIN, MOST_TERMS, summable

SAME_RATIO = 1e-12
"""Relative difference of growths that is attributed to rounding."""

RESIDENTS, L2, POWER = 0, 2, 4
"""Positions of the floors in a box, an array of shape (6,); each ceiling follows its floor."""


def halved(box: Floats, axis: int, middle: float) -> tuple[Floats, Floats]:
    """Return the lower and upper part of a box along the axis with this floor, cut in the middle."""
    lower, upper = box.copy(), box.copy()
    lower[axis + 1] = upper[axis] = middle
    if axis == RESIDENTS:
        lower[axis + 1] = math.floor(middle)
        upper[axis] = lower[axis + 1] + 1.0
    return lower, upper


@dataclass(slots=True)
class Region:
    """A box that may be halved, with its best multipliers and its latest bound.

    Attributes
    ----------
    box
        Least and most residents, floor and ceiling of L2 and of power, shape (6,).
    multipliers
        Multipliers of L2 and power, shape (2,).
    bound
        Upper bound on the worth of GPUs in the box.
    losses
        Error of the relaxed solution due to the unknown number of residents, L2 and power.
    alive
        Choices that may be part of a GPU in the box; empty if the pricing problem excludes no choice.
    """

    box: Floats
    multipliers: Floats
    bound: float = math.inf
    losses: tuple[float, float, float] = (0.0, 0.0, 0.0)
    alive: Flags = field(default_factory=lambda: np.ones(0, dtype=np.bool_))

    @classmethod
    def whole(cls, tables: Tables, least: int, most: int) -> "Region":
        """Return the region of all GPUs with ``least`` to ``most`` residents; see ``one_growth`` for ``tables``."""
        l2_pct, power_w = float(tables.l2_pct.max()), float(tables.power_w.max())
        return cls(np.array([least, most, 0.0, most * l2_pct, 0.0, most * power_w], dtype=np.float64), np.zeros(2))

    def __lt__(self, other: "Region") -> bool:
        """Order regions by decreasing bound."""
        return self.bound > other.bound

    def halves(self) -> list["Region"]:
        """Return the two halves along the axis of the largest error."""
        axis = 2 * int(np.argmax(self.losses))
        parts = halved(self.box, axis, (self.box[axis] + self.box[axis + 1]) / 2.0)
        return [Region(box, self.multipliers.copy(), self.bound, alive=self.alive.copy()) for box in parts]


class OneGrowth(NamedTuple):
    """Tables with all contention in the L2 columns.

    Attributes
    ----------
    tables
        ``l2_pct`` is the weighted sum, ``alpha_l2`` the growth in it, and the growth in DRAM is zero. The times of the
        tables are at most the original ones.
    exact
        Whether the times of each model equal the original ones up to rounding, shape (models,).
    """

    tables: Tables
    exact: Flags


def one_growth(tables: Tables) -> OneGrowth:
    """Weight L2 and DRAM such that the models' total growth is largest; no growth may be negative."""
    both = tables.alpha_l2 + tables.alpha_dram
    dram_weights = np.unique(np.append(tables.alpha_dram[both > 0.0] / both[both > 0.0], 0.0))
    loads = tables.l2_pct.max(axis=(1, 2)).mean(), tables.dram_pct.max(axis=(1, 2)).mean()
    growth = [_growths(tables, w).sum() * ((1.0 - w) * loads[0] + w * loads[1]) for w in dram_weights]
    weight = float(dram_weights[int(np.argmax(growth))])
    alpha = _growths(tables, weight)
    left_out = both - alpha
    if weight == 0.0:
        return OneGrowth(tables._replace(alpha_dram=np.zeros_like(alpha)), tables.alpha_dram == 0.0)
    summed = (1.0 - weight) * tables.l2_pct + weight * tables.dram_pct
    summed = summable(summed, max(tables.share_units, MOST_TERMS) * float(summed.max(initial=0.0)), np.floor)
    merged = tables._replace(l2_pct=summed, alpha_l2=alpha, alpha_dram=np.zeros_like(alpha))
    return OneGrowth(merged, left_out <= SAME_RATIO * both)


def _growths(tables: Tables, dram_weight: float) -> Floats:
    """Return the largest growth ``a`` of each model for these weights, shape (models,)."""
    if dram_weight == 0.0:
        return tables.alpha_l2
    of_dram = tables.alpha_dram / dram_weight
    return of_dram if dram_weight == 1.0 else np.minimum(tables.alpha_l2 / (1.0 - dram_weight), of_dram)


@compiled
def least_share_beside(
    tables: Tables,
    model: int,
    batch: int,
    start_units: int,
    budget_ms: Floats,
    row: int,
    factor: float,
    residents: int,
    l2_floor: float,
    power_floor: float,
) -> int:
    """Return the least share from ``start_units`` up within its budget, with the GPU's L2 and power at the floors.

    The budgets by share are those in row ``row``, times ``factor``. The floors include the workload's own demands. If
    no time rises with the share and there is one budget, bisection finds the share; otherwise each share is tried. The
    result is ``share_units + 1`` if no share is enough.
    """
    last = budget_ms.shape[1] - 1
    bisect = tables.falling and last == 0
    low = int(np.searchsorted(tables.permitted, start_units))
    high = len(tables.permitted)
    while low < high:
        middle = (low + high) // 2 if bisect else low
        u = tables.permitted[middle]
        others_l2 = max(0.0, l2_floor - tables.l2_pct[model, batch, u])
        time_ms = gpu_time_ms(tables, model, batch, u, residents, others_l2, 0.0, power_floor)
        if time_ms <= budget_ms[row, u if last else 0] * factor:
            high = middle
        else:
            low = middle + 1
    return tables.permitted[low] if low < len(tables.permitted) else tables.share_units + 1


@compiled
def may_fit(
    merged: Tables, model: Ints, first: Ints, end: Ints, batch: Ints, lower: Ints, budget_ms: Floats, pick: Ints
) -> bool:
    """Return whether the least shares of residents fit on a GPU under the least interference; ``False`` is a proof.

    The test iterates to a fixed point from below: the least demands raise the least shares, and these the demands.

    Parameters
    ----------
    merged
        Tables of the GPU type with one growth.
    model
        Row of each resident's model.
    first, end
        Resident j has the options ``first[j]`` to ``end[j] - 1``.
    batch, lower, budget_ms
        Batch, least share alone and budgets by share of each option.
    pick
        Output: the option of the least share of each resident at the fixed point.
    """
    residents = len(model)
    l2_floor, power_floor = 0.0, 0.0
    while True:
        l2, power, total = 0.0, 0.0, 0
        for j in range(residents):
            m = model[j]
            own_units, own_l2, own_power = merged.share_units + 1, np.inf, np.inf
            for o in range(first[j], end[j]):
                b = batch[o]
                u = least_share_beside(
                    merged, m, b, lower[o], budget_ms, o, 1.0 + MARGIN, residents, l2_floor, power_floor
                )
                if u <= merged.share_units:
                    if u < own_units:
                        own_units, pick[j] = u, o
                    own_l2 = min(own_l2, merged.l2_pct[m, b, u])
                    own_power = min(own_power, merged.power_w[m, b, u])
            total += own_units
            l2 += own_l2
            power += own_power
            if total > merged.share_units:
                return False
        if l2 <= l2_floor * (1.0 + MARGIN) and power <= power_floor * (1.0 + MARGIN):
            return True
        l2_floor, power_floor = max(l2, l2_floor), max(power, power_floor)

"""Boxes of patterns of one GPU type, by number of residents N, total demand C and total power P.

C is in percent, L2 and DRAM merged (``merged_tables``); P is in watts.
"""

from math import inf
from typing import NamedTuple

import numpy as np

from bench.certificate.failures import GivenUpError
from instances.arrays import Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN

FINE = 10_000.0
"""Steps per percent of L2 and per watt in which demands are counted."""

MOST_DEMAND = 2.0**48
"""Largest total demand of one GPU in steps, so that sums and ceilings of demands fit 64 bits."""


class PatternBox(NamedTuple):
    """All patterns with at least ``least`` and at most ``most`` residents, and C and P between floors and ceilings."""

    least: int
    most: int
    l2_least: float
    l2_most: float
    power_least: float
    power_most: float

    def growths(self, merged: Tables) -> tuple[float, float, float]:
        """Return the growth of a time across the box along N, C and P; infinite along N if the box has several N."""
        throttled_w = merged.max_power_w - merged.idle_power_w
        return (
            inf if self.most > self.least else 0.0,
            float(merged.alpha_l2.max(initial=0.0)) * (self.l2_most - self.l2_least),
            -merged.throttle_per_w * max(0.0, self.power_most - max(self.power_least, throttled_w)),
        )

    def halves(self, axis: int) -> tuple["PatternBox", "PatternBox"]:
        """Return the lower and the upper half along an axis: N, C or P."""
        match axis:
            case 0:
                middle = (self.least + self.most) // 2
                return self._replace(most=middle), self._replace(least=middle + 1)
            case 1:
                cut = (self.l2_least + self.l2_most) / 2.0
                return self._replace(l2_most=cut), self._replace(l2_least=cut)
            case _:
                cut = (self.power_least + self.power_most) / 2.0
                return self._replace(power_most=cut), self._replace(power_least=cut)


class BoxLimits(NamedTuple):
    """Residents of the patterns in a box, its ceilings and its floors, all whole."""

    residents: int
    l2_most: int
    power_most: int
    l2_least: int
    power_least: int


def whole_box(merged: Tables, models: Ints, least: int, most: int) -> PatternBox:
    """Return the box of all patterns with ``least`` to ``most`` residents, whose model rows are among ``models``.

    Raises
    ------
    GivenUpError
        If demands are too large to be counted in steps.
    """
    demands = merged.l2_pct, merged.power_w
    if not merged.most_residents * max(float(demand.max(initial=0.0)) for demand in demands) * FINE < MOST_DEMAND:
        raise GivenUpError("the demands on a GPU are too large to be counted in steps")
    rows = np.unique(models)
    l2, power = (most * float(demand[rows].max(initial=0.0)) * (1.0 + MARGIN) for demand in demands)
    return PatternBox(least, most, 0.0, l2, 0.0, power)


@compiled
def box_limits(box: PatternBox) -> BoxLimits:
    """Return the limits of a box in steps: demands of slots are rounded down, so ceilings are rounded up."""
    return BoxLimits(
        box.most,
        int(box.l2_most * FINE * (1.0 + MARGIN)) + 1,
        int(box.power_most * FINE * (1.0 + MARGIN)) + 1,
        int(box.l2_least * FINE * (1.0 - MARGIN)) - box.most - 1,
        int(box.power_least * FINE * (1.0 - MARGIN)) - box.most - 1,
    )

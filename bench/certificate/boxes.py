"""Boxes of patterns of one GPU type, by number of residents N, total demand C and total power P.

C is a weighted sum of the L2 and DRAM demands, in percent. It is in the L2 columns of the merged tables
(``bench.certificate.patterns.merged_tables``). P is in watts. If the power slows no GPU, C is the L2 demand and P the
DRAM demand, in percent.
"""

from math import inf
from typing import NamedTuple

import numpy as np

from bench.certificate.failures import GivenUpError
from instances.arrays import Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN

STEPS_PER_UNIT = 10_000.0
"""Integer steps per percent of demand, and per watt of power."""

LARGEST_DEMAND = 2.0**48
"""Largest total demand of one GPU in steps, so that sums and ceilings of demands fit 64 bits."""


class PatternBox(NamedTuple):
    """All patterns whose number of residents N, total demand C and total power P each lie between two limits."""

    fewest_residents: int
    most_residents: int
    demand_floor_pct: float
    demand_ceiling_pct: float
    power_floor_w: float
    power_ceiling_w: float

    def growths(self, merged: Tables) -> tuple[float, float, float]:
        """Return the largest relative growth of a time across the box along N, C and P.

        Along N, the growth is infinite if the box has several N, and 0 otherwise.
        """
        throttled_above_w = merged.max_power_w - merged.idle_power_w  # the frequency falls above this total power
        return (
            inf if self.most_residents > self.fewest_residents else 0.0,
            float(merged.alpha_l2.max(initial=0.0)) * (self.demand_ceiling_pct - self.demand_floor_pct),
            float(merged.alpha_dram.max(initial=0.0)) * (self.power_ceiling_w - self.power_floor_w)
            if merged.throttle_per_w == 0.0
            else -merged.throttle_per_w * max(0.0, self.power_ceiling_w - max(self.power_floor_w, throttled_above_w)),
        )

    def halves(self, axis: int) -> tuple["PatternBox", "PatternBox"]:
        """Return the lower and the upper half along an axis: 0 for N, 1 for C, 2 for P."""
        match axis:
            case 0:
                middle = (self.fewest_residents + self.most_residents) // 2
                return self._replace(most_residents=middle), self._replace(fewest_residents=middle + 1)
            case 1:
                middle_pct = (self.demand_floor_pct + self.demand_ceiling_pct) / 2.0
                return self._replace(demand_ceiling_pct=middle_pct), self._replace(demand_floor_pct=middle_pct)
            case _:
                middle_w = (self.power_floor_w + self.power_ceiling_w) / 2.0
                return self._replace(power_ceiling_w=middle_w), self._replace(power_floor_w=middle_w)


class BoxLimits(NamedTuple):
    """Largest number of residents in a box, and its ceilings and floors in integer steps."""

    residents: int
    demand_ceiling: int
    power_ceiling: int
    demand_floor: int
    power_floor: int


def whole_box(merged: Tables, models: Ints, fewest_residents: int, most_residents: int) -> PatternBox:
    """Return the box of all patterns with these numbers of residents; ``models`` has the model rows of the residents.

    Raises
    ------
    GivenUpError
        If demands are too large to be counted in steps.
    """
    columns = merged.l2_pct, merged.power_w
    largest = max(float(column.max(initial=0.0)) for column in columns)
    if not merged.most_residents * largest * STEPS_PER_UNIT < LARGEST_DEMAND:  # refuses NaN as well
        raise GivenUpError("the demands on a GPU are too large to be counted in steps")
    rows = np.unique(models)
    largest_demand_pct, largest_power_w = (
        most_residents * float(column[rows].max(initial=0.0)) * (1.0 + MARGIN) for column in columns
    )
    return PatternBox(fewest_residents, most_residents, 0.0, largest_demand_pct, 0.0, largest_power_w)


@compiled
def box_limits(box: PatternBox) -> BoxLimits:
    """Return the limits of a box in steps.

    Slots have their demands in steps rounded down. The floors are therefore one step per resident lower, so that no
    pattern of the box falls below them.
    """
    return BoxLimits(
        box.most_residents,
        int(box.demand_ceiling_pct * STEPS_PER_UNIT * (1.0 + MARGIN)) + 1,
        int(box.power_ceiling_w * STEPS_PER_UNIT * (1.0 + MARGIN)) + 1,
        int(box.demand_floor_pct * STEPS_PER_UNIT * (1.0 - MARGIN)) - box.most_residents - 1,
        int(box.power_floor_w * STEPS_PER_UNIT * (1.0 - MARGIN)) - box.most_residents - 1,
    )

"""Regions of total interference: boxes that are halved where that matters most."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from formulations.colgen.capacity.options import CapacityMarket, loss_rps
from formulations.colgen.capacity.relaxation import RelaxedCapacityBox
from instances.arrays import Floats


@dataclass(slots=True)
class CapacityRegion:
    """A box and the multipliers that served it best.

    Attributes
    ----------
    box
        Residents, L2 floor and ceiling, power floor and ceiling.
    multipliers
        Of L2 and power.
    bound
        No GPU of the box is worth more, at the charges of the last call.
    losses
        How far the relaxed solution was overrated then for want of knowing the totals of L2 and of power.
    """

    box: Floats
    multipliers: Floats
    bound: float = np.inf
    losses: tuple[float, float] = (0.0, 0.0)

    def __lt__(self, other: "CapacityRegion") -> bool:
        """The region with the larger bound comes first."""
        return self.bound > other.bound

    def halves(self) -> list["CapacityRegion"]:
        """Return the two halves along the axis that loses more."""
        low, high = (1, 2) if self.losses[0] >= self.losses[1] else (3, 4)
        middle = (self.box[low] + self.box[high]) / 2.0
        lower, upper = self.box.copy(), self.box.copy()
        lower[high] = upper[low] = middle
        return [CapacityRegion(box, self.multipliers.copy(), self.bound) for box in (lower, upper)]


@njit(cache=True)
def losses_rps(market: CapacityMarket, box: Floats, relaxed: RelaxedCapacityBox, step: int) -> tuple[float, float]:
    """How far the relaxed solution of a step is overrated for want of knowing the L2 total, and the power total."""
    l2_loss, power_loss = 0.0, 0.0
    for k in relaxed.chosen[step, : int(box[0])]:
        model = market.model[k // len(market.tables.permitted)]
        l2, power = loss_rps(market.tables, box, model, relaxed.batch[k], relaxed.units[k])
        l2_loss += l2
        power_loss += power
    return l2_loss, power_loss

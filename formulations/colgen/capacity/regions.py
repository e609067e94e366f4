"""Regions of total interference: boxes that are halved along the axis of the larger error."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from formulations.colgen.capacity.options import CapacityMarket, loss_rps
from formulations.colgen.capacity.relaxation import RelaxedCapacityBox
from instances.arrays import Floats


@dataclass(slots=True)
class CapacityRegion:
    """A box with its best multipliers so far.

    Attributes
    ----------
    box
        Residents, L2 floor and ceiling, power floor and ceiling.
    multipliers
        Multipliers of L2 and power.
    bound
        Upper bound on the worth of GPUs in the box at the charges of the last call.
    losses
        Error of the relaxed solution due to the unknown totals of L2 and of power.
    """

    box: Floats
    multipliers: Floats
    bound: float = np.inf
    losses: tuple[float, float] = (0.0, 0.0)

    def __lt__(self, other: "CapacityRegion") -> bool:
        """Order regions by decreasing bound."""
        return self.bound > other.bound

    def halves(self) -> list["CapacityRegion"]:
        """Return the two halves along the axis of the larger error."""
        low, high = (1, 2) if self.losses[0] >= self.losses[1] else (3, 4)
        middle = (self.box[low] + self.box[high]) / 2.0
        lower, upper = self.box.copy(), self.box.copy()
        lower[high] = upper[low] = middle
        return [CapacityRegion(box, self.multipliers.copy(), self.bound) for box in (lower, upper)]


@njit(cache=True)
def losses_rps(market: CapacityMarket, box: Floats, relaxed: RelaxedCapacityBox, step: int) -> tuple[float, float]:
    """Return the error of a step's relaxed solution due to the unknown totals of L2 and of power."""
    l2_loss, power_loss = 0.0, 0.0
    for k in relaxed.chosen[step, : int(box[0])]:
        model = market.model[k // len(market.tables.permitted)]
        l2, power = loss_rps(market.tables, box, model, relaxed.batch[k], relaxed.units[k])
        l2_loss += l2
        power_loss += power
    return l2_loss, power_loss

"""Best-first refinement of boxes of interference, for pricing problems whose relaxation is weak in a wide box.

Each pricing call begins with the box of all GPUs. The pricing of ``spatial`` keeps its boxes from call to call instead,
with the least demands of every choice in each, and halves those whose search was cut (``spatial.boxes.Boxes.halve``).
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from formulations.colgen.interference_boxes import halved
from instances.arrays import Flags, Floats
from instances.tables import Tables


@dataclass(slots=True)
class Region:
    """A box that may be halved, with its best multipliers and its latest bound.

    Attributes
    ----------
    box
        Least and most residents, floor and ceiling of contention and of power, shape (6,).
    multipliers
        Multipliers of contention and power, shape (2,).
    bound
        Upper bound on the worth of GPUs in the box.
    losses
        Error of the relaxed solution due to the unknown number of residents, contention and power.
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


def refine(
    waiting: list[Region],
    queue: Callable[[Region], None],
    settled: Callable[[Region], bool],
    goes_on: Callable[[], bool],
) -> None:
    """Halve the regions of a heap, largest bound first, while ``goes_on()`` is true and regions are left.

    Parameters
    ----------
    waiting
        The heap.
    queue
        Bounds a half, and adds it to the heap if it may hold a pattern that gains.
    settled
        May search a region without halving it; returns whether the region need not be halved.
    """
    while waiting and goes_on():
        region = heapq.heappop(waiting)
        if not settled(region):
            for half in region.halves():
                queue(half)

"""Boxes of interference that pricing halves, and the loop that halves them, for all plan classes.

A pricing problem examines boxes: it bounds or searches them. A box that stays open is halved. Which boxes a call begins
with is up to the pricing problem: ``spatial`` and ``split`` begin with those of the last call, ``capacity`` with the
boxes of all GPUs.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

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

    def halves(self) -> list["Region"]:
        """Return the two halves along the axis of the largest error."""
        axis = 2 * int(np.argmax(self.losses))
        parts = halved(self.box, axis, (self.box[axis] + self.box[axis + 1]) / 2.0)
        return [Region(box, self.multipliers.copy(), self.bound, alive=self.alive.copy()) for box in parts]


Box = TypeVar("Box")


def refine(
    boxes: Iterable[Box],
    open_boxes: Iterable[Box],
    bound_of: Callable[[Box], float],
    examine: Callable[[list[Box]], Iterable[Box]],
    halve: Callable[[Box], Iterable[Box]],
    goes_on: Callable[[], bool],
    most_halved: float = math.inf,
    at_once: int = 1,
    depth_first: bool = False,
) -> list[Box]:
    """Examine boxes, halve those that stay open, and examine the halves.

    Boxes are halved once all are examined, largest bound first. With ``depth_first`` they are halved as soon as they
    are examined, and their halves come before other boxes.

    Parameters
    ----------
    boxes
        Boxes to examine, in this order.
    open_boxes
        Boxes that stayed open in an earlier call.
    bound_of
        Returns the upper bound of an examined box.
    examine
        Bounds or searches boxes; returns those that stay open.
    halve
        Returns the halves of an open box; none if the box need not be halved.
    goes_on
        Returns whether another box may be halved, once all are examined.
    most_halved
        Largest number of calls of ``halve``.
    at_once
        Largest number of boxes that are examined together.

    Returns
    -------
    list
        The boxes that are still open; with ``depth_first``, without those that ``most_halved`` kept from being halved.
    """
    new, waiting, tie_breaker = deque(boxes), list[tuple[float, int, Box]](), 0
    opened = list(open_boxes)
    while True:
        halves: list[Box] = []
        for box in opened:
            if not depth_first:
                heapq.heappush(waiting, (-bound_of(box), tie_breaker, box))
                tie_breaker += 1
            elif most_halved > 0:
                most_halved -= 1
                halves += halve(box)
        if not new and waiting and most_halved > 0 and goes_on():
            most_halved -= 1
            halves += halve(heapq.heappop(waiting)[2])
        elif not new and not halves:
            return [box for _, _, box in waiting]
        new.extendleft(reversed(halves))
        part = [new.popleft() for _ in range(min(at_once, len(new)))]
        opened = list(examine(part)) if part else []

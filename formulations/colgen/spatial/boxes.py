"""Boxes of total interference, and the least share and demands of every choice in each box.

The shares of a pattern depend on the totals C (L2) and P (power) of its GPU. Given N residents and
``C >= C_lo, P >= P_lo``, every choice has a least share and least demands. A pattern with totals in the box
``[C_lo, C_hi] x [P_lo, P_hi]`` then satisfies

    N residents,  sum of least shares <= share units,  sum of least C <= C_hi,  sum of least P <= P_hi.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.clock import now, spend
from formulations.colgen.interference_boxes import MARGIN, OneGrowth, least_share_within
from formulations.colgen.spatial.choices import LATE_S, TOO_LATE, Choices
from instances.arrays import Floats
from instances.tables import Tables

SLOWDOWN_STEP = 0.017
"""Width of a power box as the fraction of the frequency lost across it."""

GROWTH_STEP = 0.024
"""Width of an L2 box as the growth of the active time across it."""

STEPS = 13
"""Boxes along each axis, besides the open one at the end."""


NARROW_L2_PCT, NARROW_POWER_W = 0.25, 0.5
"""Widths below which a box is not halved."""


class Box(NamedTuple):
    """Number of residents and ranges of the totals."""

    residents: int
    l2_floor: float
    l2_ceiling: float
    power_floor: float
    power_ceiling: float


class Takes(NamedTuple):
    """Least share and demands of each choice in each box.

    Attributes
    ----------
    box
        Residents, L2 floor and ceiling, power floor and ceiling, shape (boxes, 5).
    units
        Least share; ``share_units + 1`` if the choice is infeasible in the box; shape (boxes, choices).
    l2, power
        Least demands, shape (boxes, choices).
    narrow
        Whether a box is too narrow to be halved, shape (boxes,).
    """

    box: Floats
    units: NDArray[np.int16]
    l2: Floats
    power: Floats
    narrow: NDArray[np.bool_]


@njit(cache=True)
def least_takes(
    tables: Tables, choices: Choices, box: Box, units: NDArray[np.int16], l2: Floats, power: Floats
) -> None:
    """Write each choice's least share and demands in ``box``; each is the minimum over the batches."""
    for k in range(len(choices.workload)):
        m = choices.model[k]
        units[k], l2[k], power[k] = tables.share_units + 1, np.inf, np.inf
        for o in range(choices.option[k], choices.option[k + 1]):
            b = choices.batch[o]
            lower, factor = choices.lower_units[o], 1.0 + MARGIN
            u = least_share_within(
                tables, m, b, lower, choices.budget_ms, o, factor, box.residents, box.l2_floor, box.power_floor
            )
            if u <= tables.share_units:
                units[k] = min(units[k], u)
                l2[k] = min(l2[k], tables.l2_pct[m, b, u])
                power[k] = min(power[k], tables.power_w[m, b, u])


@njit(cache=True)
def _most_demands(growth: OneGrowth, choices: Choices, box: Box, l2: Floats, power: Floats) -> None:
    """Write each workload's largest demands at the least shares that it can need in ``box``."""
    tables = growth.tables
    open_ended = not (np.isfinite(box.l2_ceiling) and np.isfinite(box.power_ceiling))
    for k in range(len(choices.workload)):
        w, m = choices.workload[k], choices.model[k]
        for o in range(choices.option[k], choices.option[k + 1]):
            b, u = choices.batch[o], tables.share_units
            # If the combined sum is not exact for the model, any share may be needed.
            if not open_ended and growth.exact[m]:
                needed = least_share_within(
                    tables,
                    m,
                    b,
                    choices.lower_units[o],
                    choices.budget_ms,
                    o,
                    1.0 - MARGIN,
                    box.residents,
                    box.l2_ceiling,
                    box.power_ceiling,
                )
                u = min(needed, tables.share_units)
            l2[w], power[w] = max(l2[w], tables.l2_pct[m, b, u]), max(power[w], tables.power_w[m, b, u])


@njit(cache=True)
def reachable(
    growth: OneGrowth, choices: Choices, box: Box, units: NDArray[np.int16], l2: Floats, power: Floats
) -> bool:
    """Return whether ``box`` may hold patterns at least shares, by the sums of the N extreme workloads."""
    workloads, n = len(choices.first) - 1, box.residents
    if workloads < n:
        return False
    least_units = np.full(workloads, float(growth.tables.share_units + 1))
    least_l2, least_power = np.full(workloads, np.inf), np.full(workloads, np.inf)
    for k in range(len(choices.workload)):
        w = choices.workload[k]
        least_units[w] = min(least_units[w], float(units[k]))
        least_l2[w], least_power[w] = min(least_l2[w], l2[k]), min(least_power[w], power[k])
    if (
        np.sort(least_units)[:n].sum() > growth.tables.share_units
        or np.sort(least_l2)[:n].sum() > box.l2_ceiling * (1.0 + MARGIN)
        or np.sort(least_power)[:n].sum() > box.power_ceiling * (1.0 + MARGIN)
    ):
        return False
    most_l2, most_power = np.zeros(workloads), np.zeros(workloads)
    _most_demands(growth, choices, box, most_l2, most_power)
    return (
        np.sort(most_l2)[-n:].sum() * (1.0 + MARGIN) >= box.l2_floor
        and np.sort(most_power)[-n:].sum() * (1.0 + MARGIN) >= box.power_floor
    )


def grid(tables: Tables) -> tuple[list[float], list[float]]:
    """Return the box edges along L2 and power: fine where interference changes the times, open at the end."""
    growth = float(tables.alpha_l2.max())
    l2_edges = [0.0, *(np.arange(2, STEPS + 1) * GROWTH_STEP / growth)] if growth > 0.0 else [0.0]
    slope = -tables.throttle_per_w
    free_w = max(0.0, tables.max_power_w - tables.idle_power_w)
    power_edges = [0.0, *(free_w + np.arange(STEPS + 1) * SLOWDOWN_STEP / slope)] if slope > 0.0 else [0.0]
    return [*l2_edges, np.inf], [*power_edges, np.inf]


def reachable_takes(growth: OneGrowth, choices: Choices, deadline: float = math.inf) -> Takes:
    """Return the least share and demands of every choice in every box that may hold patterns at least shares.

    Raises
    ------
    TimeoutError
        If ``deadline`` on the clock has passed by ``LATE_S``: without all boxes there is no bound.
    """
    tables = growth.tables
    l2_edges, power_edges = grid(tables)
    count = len(choices.workload)
    boxes: list[Box] = []
    rows: list[tuple[NDArray[np.int16], Floats, Floats]] = []
    for residents in range(1, tables.most_residents + 1):
        before = len(boxes)
        for l2_range in pairwise(l2_edges):
            for power_range in pairwise(power_edges):
                if now() > deadline + LATE_S:
                    raise TimeoutError(TOO_LATE)
                spend(count / 10)
                box = Box(residents, *l2_range, *power_range)
                row = (np.empty(count, dtype=np.int16), np.empty(count), np.empty(count))
                least_takes(tables, choices, box, *row)
                if reachable(growth, choices, box, *row):
                    boxes.append(box)
                    rows.append(row)
        if len(boxes) == before:
            break  # a pattern of more residents stays feasible with fewer, so there is none
    return Takes(
        np.array(boxes, dtype=np.float64).reshape(len(boxes), 5),
        np.array([row[0] for row in rows], dtype=np.int16).reshape(len(rows), count),
        np.array([row[1] for row in rows], dtype=np.float64).reshape(len(rows), count),
        np.array([row[2] for row in rows], dtype=np.float64).reshape(len(rows), count),
        np.zeros(len(rows), dtype=np.bool_),
    )


class Boxes:
    """The boxes of one GPU type, and what pricing keeps of each between its calls.

    A box whose search takes long is halved: its least shares grow in the upper half, its ceiling falls in the lower.

    Parameters
    ----------
    growth, choices, deadline
        See ``reachable_takes``.

    Attributes
    ----------
    count
        Number of boxes; all arrays are longer.
    takes
        Least shares and demands.
    multipliers
        Multipliers of L2 and power of the last call, shape (boxes, 2).
    bound, heat
        Bound on the worth of a box in the current call, and its excess over the threshold in the last one.
    cut
        Whether the node limit cut the search of a box short.
    """

    def __init__(self, growth: OneGrowth, choices: Choices, deadline: float = math.inf) -> None:
        self._growth, self._choices = growth, choices
        self.takes = reachable_takes(growth, choices, deadline)
        self.count = len(self.takes.box)
        self.multipliers = np.zeros((self.count, 2))
        self.bound, self.heat = np.full(self.count, np.inf), np.zeros(self.count)
        self.cut = np.zeros(self.count, dtype=np.bool_)

    def halve(self, i: int) -> list[int]:
        """Replace a box by its halves along the axis that raises the least shares most; return their numbers.

        A half that no GPU at least shares reaches is left out. A box that is too narrow stays, and is marked.
        """
        residents, *edges = self.takes.box[i].tolist()
        parent, (_, l2, power) = Box(int(residents), *edges), self._row(i)
        spread: list[tuple[float, Box, Box]] = []
        l2_top = min(parent.l2_ceiling, parent.residents * float(l2[np.isfinite(l2)].max(initial=0.0)))
        power_top = min(parent.power_ceiling, parent.residents * float(power[np.isfinite(power)].max(initial=0.0)))
        if l2_top - parent.l2_floor > NARROW_L2_PCT:
            at = (parent.l2_floor + l2_top) / 2.0
            spread.append((0.0, parent._replace(l2_ceiling=at), parent._replace(l2_floor=at)))
        if power_top - parent.power_floor > NARROW_POWER_W:
            at = (parent.power_floor + power_top) / 2.0
            spread.append((0.0, parent._replace(power_ceiling=at), parent._replace(power_floor=at)))
        if not spread:
            self.takes.narrow[i] = True
            return [i]
        rows = [self._least(upper) for _, _, upper in spread]
        axis = int(np.argmax([row[0].sum() for row in rows]))
        _, lower, upper = spread[axis]
        halves = [(lower, self._least(lower)), (upper, rows[axis])]
        kept = [(box, row) for box, row in halves if reachable(self._growth, self._choices, box, *row)]
        places = [i, self.count][: len(kept)] or [i]
        if not kept:
            self.takes.units[i] = self._growth.tables.share_units + 1
        if len(kept) == 2:
            self._append(i)
        for place, (box, row) in zip(places, kept, strict=False):
            self.takes.box[place] = box
            for whole, part in zip(self._row(place), row, strict=True):
                whole[:] = part
        return places

    def _row(self, i: int) -> tuple[NDArray[np.int16], Floats, Floats]:
        return self.takes.units[i], self.takes.l2[i], self.takes.power[i]

    def _least(self, box: Box) -> tuple[NDArray[np.int16], Floats, Floats]:
        count = len(self._choices.workload)
        spend(count / 10)
        row = (np.empty(count, dtype=np.int16), np.empty(count), np.empty(count))
        least_takes(self._growth.tables, self._choices, box, *row)
        return row

    def _append(self, i: int) -> None:
        """Append a box with the multipliers and bounds of box ``i``."""
        if self.count == len(self.bound):
            self.takes = Takes(*(np.concatenate((part, np.zeros_like(part))) for part in self.takes))
            self.multipliers = np.concatenate((self.multipliers, np.zeros_like(self.multipliers)))
            self.bound, self.heat, self.cut = (
                np.concatenate((part, np.zeros_like(part))) for part in (self.bound, self.heat, self.cut)
            )
        for kept in (self.multipliers, self.bound, self.heat):
            kept[self.count] = kept[i]
        self.count += 1


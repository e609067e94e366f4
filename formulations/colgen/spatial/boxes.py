"""Boxes of total interference, and the least share and demands of every choice in each box.

The shares of a pattern depend on the totals C (contention) and P (power) of its GPU. Given N residents and
``C >= C_lo, P >= P_lo``, every choice has a least share and least demands. A pattern with totals in the box
``[C_lo, C_hi] x [P_lo, P_hi]`` then satisfies

    N residents,  sum of least shares <= share units,  sum of least C <= C_hi,  sum of least P <= P_hi.

Where the power slows no GPU, C may be the L2 demand and P the DRAM demand; see ``axes``.
"""

import math
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.clock import NODES_PER_S, now, spend_nodes
from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS, halved
from formulations.colgen.spatial.axes import Axes, least_share_in
from formulations.colgen.spatial.choices import LATE_S, TOO_LATE, Choices
from formulations.colgen.spatial.reachable import reachable
from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.tolerance import MARGIN

Row = tuple[Ints, NDArray[np.int16], Floats, Floats]
"""Entries of one box: choice, least share, contention and power of each."""

SLOWDOWN_STEP = 0.017
"""Width of a power box as the fraction of the frequency lost across it."""

GROWTH_STEP = 0.024
"""Width of a box along contention as the growth of the active time across it."""

STEPS = 13
"""Boxes along each axis, besides the open one at the end."""

STEPS_OF_DRAM = 5
"""The same where the axes are L2 and DRAM: pricing halves the boxes that matter."""

FEW_STEPS = 2
"""The same if there are many choices: a box then takes long, and pricing halves the boxes that matter."""

FIRST_FRACTION = 0.1
"""Largest fraction of the time for the first boxes: there are fewer if options are many."""

OPTIONS_PER_NODE = 10
"""Options whose least shares in a box are computed in the time of a node of the clock."""

SAMPLE = 64
"""Approximate number of choices by which the axis is chosen along which a box is halved."""

NARROW_CONTENTION_PCT, NARROW_POWER_W = 0.25, 0.5
"""Widths below which a box is not halved."""


class LeastDemands(NamedTuple):
    """Least shares and demands in boxes, and what pricing knows of each box.

    An entry is a choice, or a batch of it where choices are many.

    The least share and the least demands of a choice may be those of different batches. So entries by batch bound the
    worth of a box far better, but each box has entries of its own.

    Attributes
    ----------
    box
        Boxes, each with one number of residents, shape (boxes, 6); see ``Region``.
    of
        Choice of each entry, ascending.
    units
        Least share; ``share_units + 1`` if the entry is infeasible in the box; shape (boxes, entries).
    contention, power
        Least demands, shape (boxes, entries).
    narrow
        Whether a box is too narrow to be halved, shape (boxes,).
    multipliers
        Multipliers of contention and power of the last pricing call, shape (boxes, 2).
    bound
        Bound on the worth of a box in the current call, shape (boxes,).
    cut
        Whether the search of a box took long without finding a pattern, shape (boxes,).
    """

    box: Floats
    of: Ints
    units: NDArray[np.int16]
    contention: Floats
    power: Floats
    narrow: Flags
    multipliers: Floats
    bound: Floats
    cut: Flags


@compiled
def entries_in(
    axes: Axes, choices: Choices, box: Floats, least_known_units: NDArray[np.int16]
) -> tuple[Ints, NDArray[np.int16], Floats, Floats]:
    """Return the undominated batches of each choice in a box: choice, least share, contention and power.

    ``least_known_units`` has lower bounds on the least share of each option, and is overwritten with the least shares.
    """
    tables, most, floors = axes.tables, len(choices.batch), box[::2]
    of, units = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int16)
    contention, power = np.empty(most), np.empty(most)
    count = 0
    for k in range(len(choices.workload)):
        m, first = choices.model[k], count
        for o in range(choices.option[k], choices.option[k + 1]):
            if least_known_units[o] > tables.share_units:
                continue
            b, lower = choices.batch[o], max(choices.lower_units[o], least_known_units[o])
            u = least_share_in(axes, m, b, lower, choices.budget_ms, o, 1.0 + MARGIN, floors)
            least_known_units[o] = u
            if u > tables.share_units:
                continue
            own_contention, own_power = tables.l2_pct[m, b, u], tables.power_w[m, b, u]
            e, dominated = first, False
            while e < count and not dominated:
                dominated = units[e] <= u and contention[e] <= own_contention and power[e] <= own_power
                if not dominated and u <= units[e] and own_contention <= contention[e] and own_power <= power[e]:
                    count -= 1
                    units[e], contention[e], power[e] = units[count], contention[count], power[count]
                else:
                    e += 1
            if not dominated:
                of[count], units[count], contention[count], power[count] = k, u, own_contention, own_power
                count += 1
    return of[:count].copy(), units[:count].copy(), contention[:count].copy(), power[:count].copy()


@compiled
def least_of_choices(
    axes: Axes,
    choices: Choices,
    which: Ints,
    box: Floats,
    units: NDArray[np.int16],
    contention: Floats,
    power: Floats,
) -> None:
    """Write the least share and demands in ``box`` of the choices in ``which``; each is the minimum over batches.

    ``units`` holds lower bounds on the least shares, such as those in a box with lower floors.
    """
    tables, floors = axes.tables, box[::2]
    for j, k in enumerate(which):
        m, least_units = choices.model[k], units[j]
        units[j], contention[j], power[j] = tables.share_units + 1, np.inf, np.inf
        if least_units > tables.share_units:
            continue
        for o in range(choices.option[k], choices.option[k + 1]):
            b = choices.batch[o]
            lower = max(choices.lower_units[o], least_units)
            u = least_share_in(axes, m, b, lower, choices.budget_ms, o, 1.0 + MARGIN, floors)
            if u <= tables.share_units:
                units[j] = min(units[j], u)
                contention[j] = min(contention[j], tables.l2_pct[m, b, u])
                power[j] = min(power[j], tables.power_w[m, b, u])


def grid(axes: Axes, steps: int) -> tuple[list[float], list[float]]:
    """Return the box edges along both axes: fine where interference changes the times, open at the end."""
    if steps == 0:
        return [0.0, np.inf], [0.0, np.inf]
    tables, part = axes.tables, np.arange(steps + 1) / steps
    after_first = STEPS * part[part >= 2.0 / STEPS]

    def edges(growth: float) -> list[float]:
        return [0.0, *(after_first * GROWTH_STEP / growth), np.inf] if growth > 0.0 else [0.0, np.inf]

    contention_edges = edges(float(tables.alpha_l2.max()))
    if axes.by_dram:
        return contention_edges, edges(float(tables.alpha_dram.max()))
    slope = -tables.throttle_per_w
    free_w = max(0.0, tables.max_power_w - tables.idle_power_w)
    power_edges = [0.0, *(free_w + STEPS * part * SLOWDOWN_STEP / slope)] if slope > 0.0 else [0.0]
    return contention_edges, [*power_edges, np.inf]


def _steps_in_time(axes: Axes, choices: Choices, deadline: float) -> int:
    """Return the number of steps along each axis whose boxes take at most ``FIRST_FRACTION`` of the time."""
    least_units = int(choices.lower_units.min(initial=axes.tables.share_units))
    most_residents = min(axes.tables.most_residents, axes.tables.share_units // max(1, least_units))
    nodes_per_cell = most_residents * len(choices.batch) / OPTIONS_PER_NODE
    most_cells = FIRST_FRACTION * (deadline - now()) * NODES_PER_S / max(1.0, nodes_per_cell)
    steps = STEPS_OF_DRAM if axes.by_dram else STEPS
    while steps > 0 and math.prod(len(edges) - 1 for edges in grid(axes, steps)) > most_cells:
        steps -= 1
    return steps


def reachable_boxes(
    axes: Axes, choices: Choices, deadline: float = math.inf, by_batch: bool = False
) -> Iterator[tuple[Floats, Row, NDArray[np.int16]]]:
    """Yield every box that may hold patterns at least shares, its entries, and the least shares of all options.

    Without ``by_batch`` the entries are the choices, and the last array is empty.

    Raises
    ------
    TimeoutError
        If ``deadline`` on the clock has passed by ``LATE_S``: without all boxes there is no bound.
    """
    edges = grid(axes, FEW_STEPS if by_batch else _steps_in_time(axes, choices, deadline))
    count, options = len(choices.workload), len(choices.batch) if by_batch else 0
    all_choices = np.arange(count)
    for residents in range(1, axes.tables.most_residents + 1):
        any_reachable = False
        for contention_range, power_range in product(*map(pairwise, edges)):
            if now() > deadline + LATE_S:
                raise TimeoutError(TOO_LATE)
            spend_nodes(len(choices.batch) / OPTIONS_PER_NODE)
            box = np.array([residents, residents, *contention_range, *power_range], dtype=np.float64)
            least_units = np.zeros(options, dtype=np.int16)
            if by_batch:
                row = entries_in(axes, choices, box, least_units)
            else:
                row = all_choices, np.zeros(count, dtype=np.int16), np.empty(count), np.empty(count)
                least_of_choices(axes, choices, all_choices, box, *row[1:])
            if reachable(axes, choices, box, *row):
                any_reachable = True
                yield box, row, least_units
        if not any_reachable:
            break  # a pattern of more residents stays feasible with fewer, so there is none


class Boxes:
    """The boxes of one GPU type, kept between the calls of pricing.

    A box whose search takes long is halved: its least shares grow in the upper half, its ceiling falls in the lower.

    Parameters
    ----------
    axes, choices, deadline, by_batch
        See ``reachable_boxes``.

    Attributes
    ----------
    count
        Number of boxes; the arrays are at least as long.
    least
        Least shares and demands; with ``by_batch`` without entries, see ``of_box``.
    heat
        Excess of the bound of a box over the threshold in the last call.
    """

    def __init__(self, axes: Axes, choices: Choices, deadline: float = math.inf, by_batch: bool = False) -> None:
        self._axes, self._choices = axes, choices
        self.by_batch = by_batch
        boxes = list(reachable_boxes(axes, choices, deadline, by_batch))
        self._rows = [row for _, row, _ in boxes] if by_batch else []
        self._known = [least_units for _, _, least_units in boxes]
        self._all = np.arange(len(choices.workload))
        of = self._all[:0] if by_batch else self._all
        shape = len(boxes), len(of)
        dense = [] if by_batch else [row for _, row, _ in boxes]
        self.least = LeastDemands(
            np.array([box for box, _, _ in boxes], dtype=np.float64).reshape(len(boxes), 6),
            of,
            np.array([units for _, units, _, _ in dense], dtype=np.int16).reshape(shape),
            np.array([contention for _, _, contention, _ in dense], dtype=np.float64).reshape(shape),
            np.array([power for _, _, _, power in dense], dtype=np.float64).reshape(shape),
            np.zeros(len(boxes), dtype=np.bool_),
            np.zeros((len(boxes), 2)),
            np.full(len(boxes), np.inf),
            np.zeros(len(boxes), dtype=np.bool_),
        )
        self.count, self.heat = len(boxes), np.zeros(len(boxes))
        self._sample = self._all[:: max(1, len(self._all) // SAMPLE)]
        self._most_l2_pct = float(axes.tables.l2_pct[np.unique(choices.model)].max(initial=0.0))
        self._most_power_w = float(axes.tables.power_w[np.unique(choices.model)].max(initial=0.0))

    def of_box(self, i: int) -> LeastDemands:
        """Return box ``i`` alone with its entries by batch."""
        of, units, contention, power = self._rows[i]
        columns = {name: array[i : i + 1] for name, array in self.least._asdict().items()}
        entries = {"of": of, "units": units[None], "contention": contention[None], "power": power[None]}
        return LeastDemands(**(columns | entries))

    def halve(self, i: int) -> list[int]:
        """Replace a box by its halves along the axis that raises the least shares most; return their numbers.

        A half that holds no pattern at least shares is left out, unless the entries are by batch. A box that is too
        narrow is kept, and marked.
        """
        box, least = self.least.box[i].copy(), self.least
        cuts: list[tuple[Floats, Floats]] = []
        for axis, most, narrow in (
            (CONTENTION, self._most_l2_pct, NARROW_CONTENTION_PCT),
            (POWER, self._most_power_w, NARROW_CONTENTION_PCT if self._axes.by_dram else NARROW_POWER_W),
        ):
            top = min(box[axis + 1], box[RESIDENTS] * most)
            if top - box[axis] > narrow:
                cuts.append(halved(box, axis, (box[axis] + top) / 2.0))
        if not cuts:
            least.narrow[i] = True
            return [i]
        lower, upper = max(cuts, key=lambda cut: self._least(cut[1], i, self._sample)[0].sum())
        # The least demands follow from the floors, which the lower half keeps.
        if self.by_batch:
            place = self._appended(i)
            least_units = self._known[i].copy()
            spend_nodes(len(least_units) / OPTIONS_PER_NODE)
            self._rows.append(entries_in(self._axes, self._choices, upper, least_units))
            self._known.append(least_units)
            self.least.box[i], self.least.box[place] = lower, upper
            return [i, place]
        row = least.units[i].copy(), least.contention[i].copy(), least.power[i].copy()
        halves = [(lower, row), (upper, self._least(upper, i, self._all))]
        reached = [half for half in halves if reachable(self._axes, self._choices, half[0], self._all, *half[1])]
        if not reached:
            least.units[i] = self._axes.tables.share_units + 1
            return [i]
        places = [i] if len(reached) == 1 else [i, self._appended(i)]
        for place, (half, demands) in zip(places, reached, strict=True):
            self.least.box[place] = half
            self.least.units[place], self.least.contention[place], self.least.power[place] = demands
        return places

    def _least(self, box: Floats, within: int, which: Ints) -> tuple[NDArray[np.int16], Floats, Floats]:
        """Return the least shares and demands of some choices in a part of box ``within``."""
        spend_nodes(len(which) / len(self._all) * len(self._choices.batch) / OPTIONS_PER_NODE)
        units = np.zeros(len(which), dtype=np.int16) if self.by_batch else self.least.units[within, which]
        row = units, np.empty(len(which)), np.empty(len(which))
        least_of_choices(self._axes, self._choices, which, box, *row)
        return row

    def _appended(self, i: int) -> int:
        """Append a box with the multipliers and bounds of box ``i``; return its number."""
        if self.count == len(self.heat):
            self.heat = _doubled(self.heat)
            columns = {name: _doubled(array) for name, array in self.least._asdict().items()}
            self.least = LeastDemands(**(columns | {"of": self.least.of}))
        for array in (self.least.multipliers, self.least.bound, self.heat):
            array[self.count] = array[i]
        self.count += 1
        return self.count - 1


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)))

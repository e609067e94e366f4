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
    """

    box: Floats
    units: NDArray[np.int16]
    l2: Floats
    power: Floats


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
    )

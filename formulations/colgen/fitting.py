"""Test whether residents may fit on one GPU, by their least shares and demands.

Each resident has several options: batches with their latency budgets.
"""

import numpy as np

from formulations.colgen.interference_boxes import least_share_beside
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN


@compiled
def least_of_options(
    tables: Tables,
    model: int,
    first: int,
    end: int,
    batch: Ints,
    least_alone: Ints,
    budget_ms: Floats,
    residents: int,
    l2_floor: float,
    power_floor: float,
    dram_floor: float = 0.0,
) -> tuple[int, float, float, float, int]:
    """Return the least share, L2, DRAM and power over the options ``first`` to ``end - 1`` that fit at the floors.

    The last number is the option of the least share. If no option fits, the results are ``share_units + 1``, infinities
    and -1. In tables with one growth (see ``one_growth``), L2 is the contention.
    """
    units, l2, dram, power, pick = tables.share_units + 1, np.inf, np.inf, np.inf, -1
    for o in range(first, end):
        b = batch[o]
        u = least_share_beside(
            tables, model, b, least_alone[o], budget_ms, o, 1.0 + MARGIN, residents, l2_floor, power_floor, dram_floor
        )
        if u <= tables.share_units:
            if u < units:
                units, pick = u, o
            l2, dram = min(l2, tables.l2_pct[model, b, u]), min(dram, tables.dram_pct[model, b, u])
            power = min(power, tables.power_w[model, b, u])
    return units, l2, dram, power, pick


@compiled
def may_fit(
    merged: Tables,
    model: Ints,
    first: Ints,
    end: Ints,
    batch: Ints,
    least_alone: Ints,
    budget_ms: Floats,
    floors: Floats,
    pick: Ints,
) -> bool:
    """Return whether the least shares of residents fit on a GPU under the least interference; ``False`` is a proof.

    The test iterates to a fixed point from below: the least demands raise the least shares, and these the demands.

    Parameters
    ----------
    merged
        Tables of the GPU type with one growth; see ``one_growth``.
    model
        Row of each resident's model.
    first, end
        Resident j has the options ``first[j]`` to ``end[j] - 1``.
    batch, least_alone, budget_ms
        Batch, least share alone and budgets by share of each option.
    floors
        Floors of contention and power to start from, shape (2,); overwritten with those of the fixed point.
    pick
        Output: the option of the least share of each resident at the fixed point.
    """
    residents = len(model)
    while True:
        contention, power, total = 0.0, 0.0, 0
        for j in range(residents):
            own_units, own_contention, _, own_power, own_pick = least_of_options(
                merged, model[j], first[j], end[j], batch, least_alone, budget_ms, residents, floors[0], floors[1]
            )
            if own_pick >= 0:
                pick[j] = own_pick
            total += own_units
            contention += own_contention
            power += own_power
            if total > merged.share_units:
                return False
        if contention <= floors[0] * (1.0 + MARGIN) and power <= floors[1] * (1.0 + MARGIN):
            return True
        floors[0], floors[1] = max(contention, floors[0]), max(power, floors[1])

"""Axes of the boxes of a GPU type: contention and power, or L2 and DRAM where the power slows no GPU."""

from typing import NamedTuple

import numpy as np

from formulations.colgen.interference_boxes import least_share_beside, one_growth
from instances.arrays import Flags, Floats
from instances.compiled import compiled
from instances.tables import Tables


class Axes(NamedTuple):
    """Tables with the demands on both axes.

    Attributes
    ----------
    tables
        ``l2_pct`` has the demands on the first axis, and ``power_w`` those on the second one. The times of the tables
        are at most the original ones.
    exact
        Whether the times of each model equal the original ones up to rounding, shape (models,).
    by_dram
        Whether the axes are L2 and DRAM. Contention is one sum for both, which bounds the times of a model badly if
        another ratio of the two slows it than most models.
    """

    tables: Tables
    exact: Flags
    by_dram: bool


def axes_of(tables: Tables) -> Axes:
    """Return the axes on which the times depend most."""
    merged, exact = one_growth(tables)
    if tables.throttle_per_w < 0.0 or exact.all():
        return Axes(merged, exact, False)
    return Axes(tables._replace(power_w=tables.dram_pct), np.ones_like(exact), True)


@compiled
def least_share_in(
    axes: Axes, model: int, batch: int, start_units: int, budget_ms: Floats, row: int, factor: float, floors: Floats
) -> int:
    """Return ``least_share_beside`` at the residents and floors of both axes in ``floors``, shape (3,)."""
    first, second = floors[1], floors[2]
    power, dram = (0.0, second) if axes.by_dram else (second, 0.0)
    return least_share_beside(
        axes.tables, model, batch, start_units, budget_ms, row, factor, int(floors[0]), first, power, dram
    )

"""Test of a box of interference: whether any pattern can lie in it, by the sums of the smallest and largest demands."""

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS
from formulations.colgen.spatial.axes import Axes, least_share_in
from formulations.colgen.spatial.choices import Choices
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tolerance import MARGIN


@compiled
def _most_demands(
    axes: Axes, choices: Choices, box: Floats, least_units: Floats, contention: Floats, power: Floats
) -> None:
    """Write each workload's largest demands in ``box``: those at the least shares of its options at the ceilings.

    Those of workloads whose ``least_units`` exceed the GPU stay 0.
    """
    tables, ceilings = axes.tables, box[1::2]
    open_ended = not (np.isfinite(box[CONTENTION + 1]) and np.isfinite(box[POWER + 1]))
    for k in range(len(choices.workload)):
        w, m = choices.workload[k], choices.model[k]
        if least_units[w] > tables.share_units:
            continue
        for o in range(choices.option[k], choices.option[k + 1]):
            b, u = choices.batch[o], tables.share_units
            # If the combined sum is not exact for the model, any share may be needed.
            if not open_ended and axes.exact[m]:
                needed = least_share_in(
                    axes, m, b, choices.lower_units[o], choices.budget_ms, o, 1.0 - MARGIN, ceilings
                )
                u = min(needed, tables.share_units)
            contention[w], power[w] = max(contention[w], tables.l2_pct[m, b, u]), max(power[w], tables.power_w[m, b, u])


@compiled
def _sum_of_smallest(values: Floats, n: int) -> float:
    """Return the sum of the ``n`` smallest values; Numba takes five seconds to compile ``np.partition``."""
    smallest = np.full(n, np.inf)  # ascending
    for value in values:
        place = n - 1
        if value < smallest[place]:
            while place > 0 and value < smallest[place - 1]:
                smallest[place] = smallest[place - 1]
                place -= 1
            smallest[place] = value
    return float(smallest.sum())


@compiled
def reachable(
    axes: Axes,
    choices: Choices,
    box: Floats,
    of: Ints,
    units: NDArray[np.int16],
    contention: Floats,
    power: Floats,
) -> bool:
    """Return whether ``box`` may hold patterns at least shares, by the sums of the N smallest and N largest demands.

    The shares and demands given are those of the choices ``of``.
    """
    workloads, n = len(choices.first) - 1, int(box[RESIDENTS])
    if workloads < n:
        return False
    least_units = np.full(workloads, float(axes.tables.share_units + 1))
    least_contention, least_power = np.full(workloads, np.inf), np.full(workloads, np.inf)
    for e in range(len(of)):
        w = choices.workload[of[e]]
        least_units[w] = min(least_units[w], float(units[e]))
        least_contention[w], least_power[w] = min(least_contention[w], contention[e]), min(least_power[w], power[e])
    if (
        _sum_of_smallest(least_units, n) > axes.tables.share_units
        or _sum_of_smallest(least_contention, n) > box[CONTENTION + 1] * (1.0 + MARGIN)
        or _sum_of_smallest(least_power, n) > box[POWER + 1] * (1.0 + MARGIN)
    ):
        return False
    most_contention, most_power = np.zeros(workloads), np.zeros(workloads)
    _most_demands(axes, choices, box, least_units, most_contention, most_power)
    return (
        -_sum_of_smallest(-most_contention, n) * (1.0 + MARGIN) >= box[CONTENTION]
        and -_sum_of_smallest(-most_power, n) * (1.0 + MARGIN) >= box[POWER]
    )

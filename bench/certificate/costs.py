"""Costs that sets of whole GPUs can have, around a bound: exact, or rounded on the safe side.

Prices are the decimals of the file, as fractions. If the costs up to the bound are few multiples of a common divisor,
each multiple has a cell that says whether a set of GPUs costs it. The answer is then exact.

Prices such as 0.30000000000000004 and 1.01 have a tiny common divisor. Then every GPU type gets a *label*: its price
over the width of a cell, slightly increased (``_LABEL_FACTOR``) and rounded down to a whole number. The label of a set
is the sum of its GPUs' labels. All sets with the same label share a cell. The *residual* of a set is its cost less its
label times the width. A cell holds a lower and an upper bound on the residuals of its sets, in whole numbers of a small
unit. The residuals of the GPUs are rounded down for the lower bound and up for the upper bound. So every set costs at
least the least and at most the largest cost of its cell, whatever the labels are, and only the precision depends on the
labels. Good labels put sets of nearly equal costs into one cell: three GPUs at 0.30000000000000004 and nine at 0.1.

The smallest ``max(bound, least cost)`` over the cells whose largest cost is at least the bound is then a lower bound
on the least cost that is at least the bound. It is exact where a cell holds the costs of few sets.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, floor, gcd, inf, lcm
from typing import NamedTuple

import numpy as np

from bench.certificate.failures import check_memory
from instances.arrays import Flags, Ints

MOST_CELLS = 10**7
"""Largest number of cells that stand for one cost each."""

MOST_CELLS_OF_SETS = 2**20
"""Largest number of cells that stand for several costs each."""

_LABEL_FACTOR = 1 + Fraction(1, 2**20)
"""Factor on prices before labels are rounded down: 0.29999999999999998 has the label of 0.3."""

_DIGITS = 18
"""Largest number of digits of the prices that labels distinguish: a float has 17."""

_LARGEST_RESIDUAL = 2**56
"""Largest magnitude of the residual of a set, in units, so that sums of residuals fit 64 bits."""

_NO_SETS = 2**61
"""Residual that marks a cell without sets, far above ``_LARGEST_RESIDUAL``."""

_ARRAYS = 8
"""Number of arrays with one number per cell that are in memory at a time."""

Offer = tuple[Fraction, int]
"""Price of a GPU type, greater than 0 and less than the bound, and the largest number of its GPUs."""


def costs_around(
    bound: Fraction, prices: Sequence[Fraction], limits: Sequence[int | None]
) -> tuple[Fraction | float, Fraction | float]:
    """Return bounds on two costs of whole GPUs: the largest below ``bound``, and the least that is not below it.

    Returns
    -------
    below
        An upper bound on the largest cost below ``bound``; at most ``bound``.
    above
        A lower bound on the least cost that is at least ``bound``; ``inf`` if the whole pool costs less.
    """
    if bound <= 0:
        return 0, 0
    # A cheapest set that costs at least the bound would cost less than the bound without any one of its GPUs. So a GPU
    # whose price is at least the bound is alone in such a set. Every other such set costs less than twice the bound.
    priced_types = [(price, limit) for price, limit in zip(prices, limits, strict=True) if limit != 0 and price > 0]
    single_gpu_cost = min((price for price, _ in priced_types if price >= bound), default=inf)
    offers = [
        (price, ceil(bound / price) if limit is None else min(limit, ceil(bound / price)))
        for price, limit in priced_types
        if price < bound
    ]
    pool_cost = sum((price * count for price, count in offers), start=Fraction(0))
    if pool_cost < bound:
        return pool_cost, single_gpu_cost
    below, above = _costs_around_within(bound, offers)
    return below, min(above, single_gpu_cost)


def _costs_around_within(bound: Fraction, offers: Sequence[Offer]) -> tuple[Fraction, Fraction]:
    """Return bounds on the two costs of ``costs_around``.

    Every price is below the bound, and all GPUs together cost at least the bound.
    """
    if len(offers) == 1:
        price = offers[0][0]
        return (ceil(bound / price) - 1) * price, ceil(bound / price) * price
    divisor = _common_divisor([price for price, _ in offers])
    largest_cost = bound + max(price for price, _ in offers)
    if largest_cost / divisor < MOST_CELLS:
        return _exact_costs_around(bound, offers, divisor, largest_cost)
    return _cell_costs_around(bound, offers, largest_cost)


def _common_divisor(prices: Sequence[Fraction]) -> Fraction:
    multiple = lcm(*(price.denominator for price in prices))
    return Fraction(gcd(*(int(price * multiple) for price in prices)), multiple)


def _exact_costs_around(
    bound: Fraction, offers: Sequence[Offer], divisor: Fraction, largest_cost: Fraction
) -> tuple[Fraction, Fraction]:
    """Return the two costs, from the multiples of ``divisor`` up to ``largest_cost`` that sets of GPUs cost."""
    has_set = np.zeros(int(largest_cost / divisor) + 1, dtype=np.bool_)
    has_set[0] = True
    for price, count in offers:
        has_set = _with_gpus(has_set, int(price / divisor), count)
    target = ceil(bound / divisor)
    below, above = np.flatnonzero(has_set[:target]), np.flatnonzero(has_set[target:])
    return int(below[-1]) * divisor, (target + int(above[0])) * divisor


def _with_gpus(has_set: Flags, price: int, count: int) -> Flags:
    """Return ``has_set`` after up to ``count`` GPUs of one price are added to each set.

    ``price`` and the positions in ``has_set`` are costs in multiples of the divisor.
    """
    # In a table with ``price`` columns, the next row has the costs with one more GPU. A cost is reachable if its column
    # has a set in its row or at most ``count`` rows above.
    rows = -(-len(has_set) // price)
    padded = np.zeros(rows * price, dtype=np.bool_)
    padded[: len(has_set)] = has_set
    row = np.arange(rows, dtype=np.int32)[:, None]
    latest_row = np.maximum.accumulate(np.where(padded.reshape(rows, price), row, np.int32(-rows - 1)), axis=0)
    reachable: Flags = row - latest_row <= min(count, rows)
    return reachable.ravel()[: len(has_set)]


class _Cells(NamedTuple):
    """Cells of sets of GPUs, by label.

    Attributes
    ----------
    width
        Cost that one step of the label stands for.
    units
        Units of a residual in the width.
    labels
        Labels of the cells that have sets, ascending.
    least_residuals, largest_residuals
        Bounds on the residuals of each cell's sets, in units. The cost of a set is ``label * width`` plus its residual.
    """

    width: Fraction
    units: int
    labels: Ints
    least_residuals: Ints
    largest_residuals: Ints

    def cost(self, label: int, residual: int) -> Fraction:
        """Return the cost of a set that has a label and a residual."""
        return (label + Fraction(residual, self.units)) * self.width

    def units_above(self, label: int) -> Ints:
        """Return by how many units the label of each cell exceeds ``label``, clipped far beyond every residual."""
        farthest = 4 * _LARGEST_RESIDUAL // self.units
        return np.clip(self.labels - label, -farthest, farthest) * self.units


def _cell_costs_around(bound: Fraction, offers: Sequence[Offer], largest_cost: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds on the two costs of ``costs_around``, from cells of the sets that cost up to ``largest_cost``."""
    cells = _cells_of(offers, largest_cost)
    label = floor(bound / cells.width)
    bound_residual = ceil((bound - label * cells.width) / cells.width * cells.units)
    units_above_label = cells.units_above(label)
    may_reach = units_above_label + cells.largest_residuals >= bound_residual
    may_miss = units_above_label + cells.least_residuals < bound_residual
    if np.any(may_reach & may_miss):  # a cell may have sets on both sides of the bound
        return bound, bound
    first_label, last_label = int(cells.labels[may_reach][0]), int(cells.labels[may_miss][-1])
    least_above = int((cells.units_above(first_label) + cells.least_residuals)[may_reach].min())
    largest_below = int((cells.units_above(last_label) + cells.largest_residuals)[may_miss].max())
    return cells.cost(last_label, largest_below), cells.cost(first_label, least_above)


def _cells_of(offers: Sequence[Offer], largest_cost: Fraction) -> _Cells:
    """Return the cells of the sets that cost up to ``largest_cost``."""
    width = min(_widths(offers, largest_cost), key=lambda width: _spread(offers, width))
    divisor = _common_divisor([width, *(price for price, _ in offers)])
    # With one unit per ``divisor``, residuals are exact. There are fewer units if residuals would not fit 64 bits.
    units = min(int(width / divisor), max(1, int(_LARGEST_RESIDUAL * width / max(width, 2 * _spread(offers, width)))))
    cell_count = floor(largest_cost * _LABEL_FACTOR / width) + 1
    check_memory("the costs of sets of GPUs", _ARRAYS, cell_count)
    # Bounds on the residuals of the sets in each cell.
    least, largest = np.full(cell_count, _NO_SETS), np.full(cell_count, -_NO_SETS)
    least[0] = largest[0] = 0
    for price, count in offers:
        label = _label(price, width)
        residual = (price / width - label) * units
        if label == 0:  # any number of these GPUs is in the same cell
            largest += ceil(count * residual)
            continue
        remaining, gpus_added = min(count, (cell_count - 1) // label), 1
        while remaining > 0:  # adds one, two, four, ... GPUs, which together make any number up to the limit
            gpus_added = min(gpus_added, remaining)
            label_step = gpus_added * label
            smallest_sum = least[:-label_step] + gpus_added * floor(residual)
            largest_sum = largest[:-label_step] + gpus_added * ceil(residual)
            least[label_step:] = np.minimum(least[label_step:], smallest_sum)
            largest[label_step:] = np.maximum(largest[label_step:], largest_sum)
            remaining, gpus_added = remaining - gpus_added, 2 * gpus_added
    used_labels = np.flatnonzero(least < _NO_SETS // 2)
    return _Cells(width, units, used_labels, least[used_labels], largest[used_labels])


def _label(price: Fraction, width: Fraction) -> int:
    return floor(price * _LABEL_FACTOR / width)


def _spread(offers: Sequence[Offer], width: Fraction) -> Fraction:
    """Return an upper bound on the magnitude of a set's residual: the magnitudes for all GPUs, added."""
    return sum((count * abs(price - _label(price, width) * width) for price, count in offers), start=Fraction(0))


def _widths(offers: Sequence[Offer], largest_cost: Fraction) -> Iterator[Fraction]:
    """Yield widths that need at most ``MOST_CELLS_OF_SETS`` cells.

    The first is the narrowest such width, rounded up to three digits. The others are common divisors of the prices,
    rounded to fewer or more digits.
    """
    narrowest = largest_cost * _LABEL_FACTOR / (MOST_CELLS_OF_SETS - 1)
    unit = _power_of_ten(narrowest) / 100
    yield ceil(narrowest / unit) * unit
    unit = _power_of_ten(max(price for price, _ in offers)) * 10
    for _ in range(_DIGITS):
        unit /= 10
        width = gcd(*(round(price / unit) for price, _ in offers)) * unit
        if width >= narrowest:
            yield width


def _power_of_ten(number: Fraction) -> Fraction:
    """Return a power of ten that is at most a positive number, and at least a tenth of it."""
    return Fraction(10) ** (len(str(floor(number))) - 1 if number >= 1 else -len(str(floor(1 / number))))

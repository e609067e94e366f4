"""Costs that sets of whole GPUs can have, around a bound: exact, or rounded on the safe side.

Prices are the decimals of the file, as fractions. If the costs up to the bound are few multiples of a common divisor,
each multiple has a cell that says whether a set of GPUs costs it. The answer is then exact.

Prices such as 0.30000000000000004 and 1.01 have a tiny common divisor. Then every GPU type gets a *label*, a whole
number that is at most its price over the width of a cell. The label of a set is the sum of its GPUs' labels, and all
sets with one label share a cell. A cell holds the least and the largest cost of its sets, in whole numbers of a small
unit: prices are rounded down for the least cost and up for the largest. So every set costs at least the least and at
most the largest cost of its cell, whatever the labels are, and only the precision depends on the labels. Good labels
put sets of nearly equal costs into one cell: three GPUs at 0.30000000000000004 and nine at 0.1.

The least cost that is at least the bound is then, at least, the smallest of ``max(bound, least cost)`` over the cells
whose largest cost is at least the bound. That is exact where a cell holds the costs of few sets.
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

_NEARLY = 1 + Fraction(1, 2**20)
"""Factor on prices before labels are rounded down: 0.29999999999999998 has the label of 0.3."""

_DIGITS = 18
"""Most digits of the prices that labels distinguish: a float has 17."""

_LARGEST, _UNREACHED = 2**56, 2**61
"""Bound on the sum of the residuals of a set, in units, and residual of a cell without sets."""

_ARRAYS = 8
"""Numbers per cell in memory at a time."""

Offer = tuple[Fraction, int]
"""Price of a GPU type, greater than 0 and less than the bound, and the largest number of its GPUs."""


def costs_around(
    bound: Fraction, prices: Sequence[Fraction], limits: Sequence[int | None]
) -> tuple[Fraction | float, Fraction | float]:
    """Return bounds on two costs of whole GPUs: the largest one below ``bound``, and the least one of at least it.

    Returns
    -------
    below
        An upper bound on the largest cost below ``bound``; at most ``bound``.
    above
        A lower bound on the least cost that is at least ``bound``; ``inf`` if the whole pool costs less.
    """
    if bound <= 0:
        return 0, 0
    # Without any one of its GPUs, a cheapest set that costs at least the bound misses it. So a GPU that alone costs the
    # bound is alone in it, and the set costs less than twice the bound if there is no such GPU.
    known = [(price, limit) for price, limit in zip(prices, limits, strict=True) if limit != 0 and price > 0]
    alone = min((price for price, _ in known if price >= bound), default=inf)
    offers = [
        (price, ceil(bound / price) if limit is None else min(limit, ceil(bound / price)))
        for price, limit in known
        if price < bound
    ]
    whole = sum((price * count for price, count in offers), start=Fraction(0))
    if whole < bound:
        return whole, alone
    below, above = _around(bound, offers)
    return below, min(above, alone)


def _around(bound: Fraction, offers: Sequence[Offer]) -> tuple[Fraction, Fraction]:
    """Return bounds on the two costs; every price is below the bound, and all GPUs together cost at least that much."""
    if len(offers) == 1:
        price = offers[0][0]
        return (ceil(bound / price) - 1) * price, ceil(bound / price) * price
    common = _common_divisor([price for price, _ in offers])
    most = bound + max(price for price, _ in offers)
    if most / common < MOST_CELLS:
        return _exactly(bound, offers, common, most)
    return _by_cells(bound, offers, most)


def _common_divisor(prices: Sequence[Fraction]) -> Fraction:
    scale = lcm(*(price.denominator for price in prices))
    return Fraction(gcd(*(int(price * scale) for price in prices)), scale)


def _exactly(bound: Fraction, offers: Sequence[Offer], common: Fraction, most: Fraction) -> tuple[Fraction, Fraction]:
    """Return the two costs, from the multiples of ``common`` up to ``most`` that sets of GPUs cost."""
    reached = np.zeros(int(most / common) + 1, dtype=np.bool_)
    reached[0] = True
    for price, count in offers:
        reached = _with_gpus(reached, int(price / common), count)
    target = ceil(bound / common)
    below, above = np.flatnonzero(reached[:target]), np.flatnonzero(reached[target:])
    return int(below[-1]) * common, (target + int(above[0])) * common


def _with_gpus(reached: Flags, price: int, count: int) -> Flags:
    """Return the costs with up to ``count`` further GPUs: each is at most that many steps above one of ``reached``."""
    rows = -(-len(reached) // price)
    chains = np.zeros(rows * price, dtype=np.bool_)
    chains[: len(reached)] = reached
    row = np.arange(rows, dtype=np.int32)[:, None]
    latest = np.maximum.accumulate(np.where(chains.reshape(rows, price), row, np.int32(-rows - 1)), axis=0)
    found: Flags = row - latest <= min(count, rows)
    return found.ravel()[: len(reached)]


class _Cells(NamedTuple):
    """Cells of sets of GPUs, by label.

    Attributes
    ----------
    width
        Cost that one step of the label stands for.
    units
        Units of a residual in the width.
    label
        Labels of the cells that have sets, ascending.
    least, most
        Bounds on the residuals of a cell's sets, in units: the cost of a set is ``label * width`` and its residual.
    """

    width: Fraction
    units: int
    label: Ints
    least: Ints
    most: Ints

    def cost(self, label: int, residual: int) -> Fraction:
        """Return the cost of a set that has a label and a residual."""
        return (label + Fraction(residual, self.units)) * self.width

    def units_above(self, label: int) -> Ints:
        """Return how far the cells lie above a label, in units; farther cells lie more than any residual above it."""
        farthest = 4 * _LARGEST // self.units
        return np.clip(self.label - label, -farthest, farthest) * self.units


def _by_cells(bound: Fraction, offers: Sequence[Offer], most: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds on the two costs, from the cells of the sets that cost up to ``most``."""
    cells = _cells_of(offers, most)
    label = floor(bound / cells.width)
    rest = ceil((bound - label * cells.width) / cells.width * cells.units)
    residual = cells.units_above(label)
    reach, miss = residual + cells.most >= rest, residual + cells.least < rest
    if np.any(reach & miss):
        return bound, bound
    first, last = int(cells.label[reach][0]), int(cells.label[miss][-1])
    above = int((cells.units_above(first) + cells.least)[reach].min())
    below = int((cells.units_above(last) + cells.most)[miss].max())
    return cells.cost(last, below), cells.cost(first, above)


def _cells_of(offers: Sequence[Offer], most: Fraction) -> _Cells:
    """Return the cells of the sets that cost up to ``most``; no label is above that of ``most``."""
    width = min(_widths(offers, most), key=lambda width: _spread(offers, width))
    common = _common_divisor([width, *(price for price, _ in offers)])
    units = min(int(width / common), max(1, int(_LARGEST * width / max(width, 2 * _spread(offers, width)))))
    cells = floor(most * _NEARLY / width) + 1
    check_memory("the costs of sets of GPUs", _ARRAYS, cells)
    least, most_of = np.full(cells, _UNREACHED), np.full(cells, -_UNREACHED)
    least[0] = most_of[0] = 0
    for price, count in offers:
        label = _label(price, width)
        each = (price / width - label) * units
        if label == 0:  # any number of these GPUs is in the same cell
            most_of += ceil(count * each)
            continue
        left, part = min(count, (cells - 1) // label), 1
        while left > 0:  # sets with one, two, four, ... GPUs more: together any number of them
            part = min(part, left)
            up = part * label
            lower, upper = least[:-up] + part * floor(each), most_of[:-up] + part * ceil(each)
            least[up:], most_of[up:] = np.minimum(least[up:], lower), np.maximum(most_of[up:], upper)
            left, part = left - part, 2 * part
    label_of = np.flatnonzero(least < _UNREACHED // 2)
    return _Cells(width, units, label_of, least[label_of], most_of[label_of])


def _label(price: Fraction, width: Fraction) -> int:
    return floor(price * _NEARLY / width)


def _spread(offers: Sequence[Offer], width: Fraction) -> Fraction:
    """Return the largest sum of residuals of a set, positive or negative."""
    return sum((count * abs(price - _label(price, width) * width) for price, count in offers), start=Fraction(0))


def _widths(offers: Sequence[Offer], most: Fraction) -> Iterator[Fraction]:
    """Yield widths: the narrowest decimal of three digits, and common divisors of the prices rounded to some digits."""
    narrowest = most * _NEARLY / (MOST_CELLS_OF_SETS - 1)
    unit = _power_of_ten(narrowest) / 100
    yield ceil(narrowest / unit) * unit
    unit = _power_of_ten(max(price for price, _ in offers)) * 10
    for _ in range(_DIGITS):
        unit /= 10
        width = gcd(*(round(price / unit) for price, _ in offers)) * unit
        if width >= narrowest:
            yield width


def _power_of_ten(number: Fraction) -> Fraction:
    """Return a power of ten that is at most ten times a number, and more than a hundredth of it."""
    return Fraction(10) ** (len(str(floor(number))) - 1 if number >= 1 else -len(str(floor(1 / number))))

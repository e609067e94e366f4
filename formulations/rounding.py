"""Sums of floats rounded outwards, so that a bound stays valid despite rounding."""

import math
from collections.abc import Iterable

SAFETY = 1e-9
"""Relative allowance, on the sum of the terms' sizes, for rounding in the terms and in their sum."""


def sum_rounded_up(terms: Iterable[float]) -> float:
    """Return an upper bound on the sum of terms that were rounded."""
    terms = list(terms)
    return math.fsum(terms) + SAFETY * math.fsum(map(abs, terms))


def sum_rounded_down(terms: Iterable[float]) -> float:
    """Return a lower bound on the sum of terms that were rounded."""
    return -sum_rounded_up(-term for term in terms)

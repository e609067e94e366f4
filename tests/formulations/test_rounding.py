"""Sums rounded outwards: they enclose the exact sum of their terms."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from formulations.colgen.column_generation import cost_bound
from formulations.rounding import sum_rounded_down, sum_rounded_up

TERMS = st.lists(st.floats(-1e9, 1e9), max_size=20)


@given(TERMS)
def test_rounded_sums_enclose_the_exact_sum(terms: list[float]) -> None:
    exact = sum(map(Fraction, terms), Fraction(0))
    assert Fraction(sum_rounded_down(terms)) <= exact <= Fraction(sum_rounded_up(terms))


def test_rounded_sums_allow_for_terms_that_cancel() -> None:
    # Each term may be wrong by a rounding of its own size, however small their sum is.
    assert sum_rounded_up([1e9, -1e9]) >= 1e9 * 2.0**-52
    assert sum_rounded_down([1e9, -1e9]) <= -1e9 * 2.0**-52


def test_a_bound_on_the_cost_allows_for_large_terms_that_cancel() -> None:
    # At the factor 1 on the duals, the exact bound is 1e9 + 0.5 minus 1e9 - 1, the worth of a GPU above its price of 1.
    # So it is 1.5, less an allowance for rounding. At the factor 1e-9 the bound is 1, without such large terms.
    one = np.ones(1)
    bound = cost_bound(np.array([1e9 + 0.5]), one, np.array([1e9, 1.0]), np.ones(2), np.ones(2))
    assert 1.0 - 1e-8 <= bound <= 1.5 - 1e9 * 2.0**-52

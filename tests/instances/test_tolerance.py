"""Sums that do not depend on their order, and limits with the tolerance."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.tolerance import TOLERANCE, summable, widened

figures = st.floats(0.0, 1e12, allow_subnormal=False)


@given(st.lists(figures, min_size=1, max_size=128), st.randoms())
def test_sums_are_exact_and_the_same_in_any_order(values: list[float], random: object) -> None:
    rounded = summable(np.array(values), 128.0 * max(values)).tolist()
    shuffled = list(rounded)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert sum(rounded) == sum(shuffled) == float(np.sum(rounded)) == math.fsum(rounded)
    total = sum(rounded)
    for value in rounded:
        assert total - value == math.fsum(rounded) - value


@given(st.lists(figures, min_size=2, max_size=50))
def test_rounding_is_small_and_keeps_the_order(values: list[float]) -> None:
    largest = 128.0 * max(values)
    rounded = summable(np.array(values), largest)

    assert np.all(np.abs(rounded - values) <= 2e-16 * largest)
    order = np.argsort(values)
    assert np.all(np.diff(rounded[order]) >= 0.0)
    assert np.array_equal(summable(rounded, largest), rounded)


def test_decimals_without_an_exact_float_add_up() -> None:
    rounded = summable(np.full(7, 500.3), 4.0 * 3502.1)
    assert {sum(order) for order in permutations(rounded[:5].tolist())} == {sum(rounded[:5].tolist())}
    assert rounded.sum() <= widened(3502.1)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, -math.inf])
def test_zero_negative_and_infinite_limits_are_unchanged(limit: float) -> None:
    assert widened(limit) == limit
    assert widened(np.array([limit])).tolist() == [limit]


@given(st.floats(1e-300, 1e300))
def test_the_tolerance_is_relative(limit: float) -> None:
    assert limit * (1.0 + 0.9 * TOLERANCE) < widened(limit) < limit * (1.0 + 1.1 * TOLERANCE)
    assert widened(np.array([limit]))[0] == widened(limit)


def test_figures_without_a_scale_are_unchanged() -> None:
    for largest in (0.0, math.inf):
        assert summable(np.array([0.1, math.inf]), largest).tolist() == [0.1, math.inf]

"""Bootstrap intervals: against known intervals, and within their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics.inference import mean_interval


def test_an_interval_of_normal_samples_is_near_the_normal_one():
    values = np.random.default_rng(3).normal(10.0, 2.0, 200)
    low, high = mean_interval(values)
    half = 1.96 * values.std() / 200**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.05)


def test_an_interval_of_zeros_and_ones_is_the_binomial_one():
    # 100 draws with probability 0.3: 2.5 % and 97.5 % quantiles are 21 and 39.
    assert mean_interval([1.0] * 30 + [0.0] * 70) == pytest.approx((0.21, 0.39), abs=0.011)


@pytest.mark.parametrize("values", [[], [0.4]])
def test_one_value_has_no_interval(values):
    assert mean_interval(values) is None


def test_equal_values_have_an_interval_without_width():
    assert mean_interval([0.25, 0.25, 0.25]) == (0.25, 0.25)


@settings(max_examples=30)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20))
def test_an_interval_stays_within_the_values_and_repeats(values):
    low, high = mean_interval(values)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12
    assert mean_interval(values) == (low, high)

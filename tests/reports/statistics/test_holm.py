"""Holm's correction: against values worked out by hand and Bonferroni's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.inference import holm

P_VALUES = st.lists(st.floats(0.0, 1.0), max_size=12)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        ([0.03], [0.03]),
        # 4 * 0.01, then max(0.04, 3 * 0.02), max(0.06, 2 * 0.03), max(0.06, 0.04)
        ([0.01, 0.02, 0.03, 0.04], [0.04, 0.06, 0.06, 0.06]),
        # Demšar 2006, Sec. 3.2.2: 0.016 and 0.019 against 0.05/3 and 0.05/2, and a test that is not rejected
        ([0.607, 0.016, 0.019], [0.607, 0.048, 0.048]),
        ([0.5, 0.6], [1.0, 1.0]),
    ],
)
def test_p_values_are_adjusted_as_by_hand(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)


@given(P_VALUES)
def test_adjusted_p_values_lie_between_the_raw_and_bonferronis(p_values):
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, len(p_values) * p)


@given(P_VALUES, st.randoms(use_true_random=False))
def test_the_order_of_the_tests_does_not_matter(p_values, random):
    order = list(range(len(p_values)))
    random.shuffle(order)
    adjusted = holm(p_values)
    assert holm([p_values[index] for index in order]) == [adjusted[index] for index in order]

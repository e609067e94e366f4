"""Scales of the page's charts: every axis has at least two labels and encloses its values."""

from itertools import product

import pytest

from reports.charts.scales import Scale, plain


def test_every_axis_has_two_labels_and_encloses_its_values(subtests):
    spans = (3.0, 4.0), (8.5, 47.0), (95.0, 105.0), (0.0011, 900.0), (7.0, 7.0), (0.3, 2e9)
    for span, log, most_ticks in product(spans, (False, True), (2, 4, 15)):
        with subtests.test(span=span, log=log, most=most_ticks):
            (low, high), ticks = Scale("", log=log).fitted(span, most_ticks)
            assert len(ticks) >= 2
            assert low <= span[0] <= span[1] <= high
            assert ticks[-1] >= span[1] * (1 - 1e-9)


@pytest.mark.parametrize("values", [(), (0.0,), (0.0, 5.0), (-1.7e308, 1.7e308), (5e-324, 1.0), (float("inf"), 1.0)])
@pytest.mark.parametrize("log", [False, True])
def test_odd_values_have_finite_limits_and_labels(values, log):
    (low, high), ticks = Scale("", log=log).fitted(values, 6)
    assert -1e16 < low < high < 1e16
    assert len(ticks) >= 2


def test_a_bent_axis_has_zero_and_powers_of_ten_on_both_sides():
    limits, ticks = Scale("", bent=True, domain=(-5000.0, 900.0)).fitted((), 6)
    assert limits == (-5000.0, 900.0)
    assert ticks == [-1000.0, -10.0, 0.0, 10.0]


def test_numbers_have_no_exponent_where_that_is_readable():
    words = {0.0: "0", 0.0012345: "0.001234", 0.25: "0.25", 7.0: "7", 1234.6: "1,235", 1e6: "1,000,000", 2e9: "2e+09"}
    assert {number: plain(number) for number in words} == words
    assert plain(1e-9) == "1e-09"

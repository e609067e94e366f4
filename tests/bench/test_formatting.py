"""Numbers as people read them."""

import pytest

from bench.formatting import percent, seconds, worth, worth_of_bound


@pytest.mark.parametrize(
    ("duration_s", "told"),
    [
        (None, "-"),
        (0.00123, "1.23 ms"),
        (2.5, "2.50 s"),
        (150.0, "150 s"),
        (1500.0, "25:00"),
        (3723.0, "1:02:03"),
        (1e300, "1e+300 s"),  # a ledger may say so
        (2**63, "9.22e+18 s"),
    ],
)
def test_durations(duration_s: float | None, told: str) -> None:
    assert seconds(duration_s) == told


@pytest.mark.parametrize(
    ("value", "objective", "told"),
    [
        (18.36, "cost", "18.36 $/h"),
        (1.578, "cost", "1.578 $/h"),  # three T4 at $0.526
        (18.356789, "cost", "18.36 $/h"),  # a mean, not a sum of prices
        (1234.5678, "capacity", "1,234.6 req/s"),
        (None, "cost", "-"),
    ],
)
def test_values(value: float | None, objective: str, told: str) -> None:
    assert worth(value, objective) == told


@pytest.mark.parametrize(
    ("bound", "objective", "told"),
    [
        (1.578, "cost", "1.578 $/h"),
        (15.9079, "cost", "15.90 $/h"),  # no plan is cheaper than $15.9079: $15.91 would say more
        (3.06 * 59, "cost", "180.54 $/h"),
        (1234.51, "capacity", "1,234.6 req/s"),  # no plan serves more than 1,234.51
        (1234.5, "capacity", "1,234.5 req/s"),
        (0.4051, "scale", "0.406 x"),
        (1e306, "scale", worth(1e306, "scale")),
    ],
)
def test_bounds_are_rounded_to_the_safe_side(bound: float, objective: str, told: str) -> None:
    assert worth_of_bound(bound, objective) == told


@pytest.mark.parametrize(
    ("fraction", "told"),
    [
        (None, "-"),
        (0.0, "0.0 %"),
        (1e-9, "0.0 %"),
        (1e-5, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.5, "50.0 %"),
        (-0.2, "-20.0 %"),
    ],
)
def test_a_small_gap_differs_from_none(fraction: float | None, told: str) -> None:
    assert percent(fraction) == told

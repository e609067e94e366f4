"""The costs just below and above a bound, against all sets of GPUs: exact, or on the safe side, in little memory."""

import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil, inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.certificate import costs
from bench.certificate.costs import costs_around
from bench.certificate.failures import GivenUpError, check_memory

MOST_SETS = 20_000  # of GPUs, that a test enumerates

decimals = st.one_of(
    st.sampled_from((0.30000000000000004, 1.01, 0.3, 0.1, 3.06, 0.7999999999999999, 2.0)),
    st.floats(0.1, 5.0),
    st.builds(round, st.floats(0.1, 5.0), st.integers(1, 17)),
    st.builds(lambda number, power: number * 10.0**power, st.floats(0.1, 5.0), st.integers(-3, 3)),
)
offers = st.lists(st.tuples(decimals, st.none() | st.integers(0, 10)), min_size=1, max_size=3)


def exactly(price: float) -> Fraction:
    return Fraction(repr(price))


def enumerated(bound: Fraction, prices: list[Fraction], limits: list[int | None]) -> list[Fraction] | None:
    """Return the costs of all sets of GPUs up to the first above the bound; None if there are too many sets."""
    most_of_type = [
        ceil(bound / price) if limit is None else min(limit, ceil(bound / price))
        for price, limit in zip(prices, limits, strict=True)
    ]
    sets = 1
    for count in most_of_type:
        sets *= count + 1
    if sets > MOST_SETS:
        return None
    return [
        sum((n * price for n, price in zip(counts, prices, strict=True)), start=Fraction(0))
        for counts in product(*(range(count + 1) for count in most_of_type))
    ]


@pytest.fixture
def merged_cells() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "MOST_CELLS", 0)
        yield


def compare(bound: Fraction, offer: list[tuple[float, int | None]]) -> None:
    prices, limits = [exactly(price) for price, _ in offer], [limit for _, limit in offer]
    all_costs = enumerated(bound, prices, limits)
    if all_costs is None:
        return

    below, above = costs_around(bound, prices, limits)

    true_below = max(cost for cost in all_costs if cost < bound)
    true_above = min((cost for cost in all_costs if cost >= bound), default=inf)
    assert true_below <= below <= bound <= above <= true_above
    if true_above < inf:
        assert float(true_above - above) <= 1e-13 * float(bound)
        assert float(below - true_below) <= 1e-13 * float(bound) or below == bound
    else:
        assert above == inf


@given(offers, st.floats(0.01, 10.0))
@example([(0.30000000000000004, None), (1.01, None)], 1e-12)
@example([(0.30000000000000004, None), (0.1, None)], 0.3)
@settings(max_examples=150)
def test_costs_are_those_of_all_sets(offer: list[tuple[float, int | None]], bound: float) -> None:
    compare(exactly(bound), offer)


@given(offers, st.lists(st.integers(0, 3), min_size=3, max_size=3))
@settings(max_examples=150)
def test_costs_are_those_of_all_sets_if_the_bound_is_one_of_them(
    offer: list[tuple[float, int | None]], counts: list[int]
) -> None:
    bound = sum((n * exactly(price) for n, (price, _) in zip(counts, offer, strict=False)), start=Fraction(0))
    if bound > 0:
        compare(bound, offer)


@pytest.mark.usefixtures("merged_cells")
@given(offers, st.floats(0.01, 10.0) | st.integers(1, 3).map(lambda n: n * 0.30000000000000004))
@settings(max_examples=150)
def test_costs_are_on_the_safe_side_if_sets_are_merged(offer: list[tuple[float, int | None]], bound: float) -> None:
    compare(exactly(bound), offer)


def test_the_next_cost_of_odd_prices_is_exact() -> None:
    prices = [exactly(0.30000000000000004), exactly(1.01)]

    assert costs_around(exactly(0.5), prices, [None, None]) == (prices[0], 2 * prices[0])
    assert costs_around(3 * prices[0], prices, [None, None]) == (2 * prices[0], 3 * prices[0])
    assert costs_around(exactly(0.95), prices, [2, None]) == (2 * prices[0], prices[1])
    assert costs_around(exactly(4.0), prices, [2, 1]) == (2 * prices[0] + prices[1], inf)


def test_the_costs_of_thousands_of_odd_gpus_are_exact_to_15_digits() -> None:
    prices = [exactly(0.30000000000000004), exactly(1.01)]
    below, above = costs_around(Fraction(5000), prices, [None, None])
    assert Fraction("4999.99") <= below <= Fraction("4999.990000000001")
    assert 5000 <= above <= Fraction("5000.000000000001")


PRICES = (5e-324, 1e-9, 0.30000000000000004, 1.01, 12345.678901234567, 1.7976931348623157e308)


def test_odd_prices_and_counts_take_little_memory() -> None:
    tracemalloc.start()
    for first, second, limit in product(PRICES, PRICES, (None, 999_983)):
        prices = [exactly(first), exactly(second), exactly(0.526)]
        for bound in (prices[0], 1000 * prices[1], sum(prices)):
            below, above = costs_around(bound, prices, [limit, None, 10**6])
            assert below <= bound <= above
    assert tracemalloc.get_traced_memory()[1] < 400e6
    tracemalloc.stop()


def test_arrays_beyond_the_limit_are_refused_before_they_are_made() -> None:
    check_memory("numbers", 5_000, 10_000)
    with pytest.raises(GivenUpError, match=r"numbers would take 50,000,001 numbers in memory, at most 50,000,000"):
        check_memory("numbers", 50_000_001)

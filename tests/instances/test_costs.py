"""Costs of whole GPUs: the step between them, and the next one; see also tests/bench/ledger/test_gap.py."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.costs import cost_step, next_cost, whole_gpus


def pool(*prices: float) -> Instance:
    types = [replace(gpu_type("v100"), name=f"gpu{i}", price_per_hour=price) for i, price in enumerate(prices)]
    return Instance("pool", Objective.COST, SloRule.HALF_SLO, "igniter", tuple(GpuPool(gpu) for gpu in types), ())


@pytest.mark.parametrize(
    ("prices", "step"), [((3.06,), 3.06), ((3.06, 1.53), 1.53), ((3.06, 0.526), 0.002), ((2.0, 3.0, 0.0), 1.0)]
)
def test_the_cost_step_is_as_worked_out_by_hand(prices: tuple[float, ...], step: float) -> None:
    assert cost_step(pool(*prices)) == pytest.approx(step, rel=1e-12)


def test_no_two_costs_are_closer_than_the_step() -> None:
    prices = (3.06, 1.1, 0.526)
    costs = sorted(
        {round(sum(c * p for c, p in zip(counts, prices, strict=True)), 9) for counts in product(range(6), repeat=3)}
    )

    closest = min(b - a for a, b in pairwise(costs))

    assert cost_step(pool(*prices)) <= closest + 1e-9


@given(
    st.lists(st.tuples(st.sampled_from((0.0, 0.526, 1.0, 1.53, 3.06, 4.1)), st.none() | st.integers(0, 4)), max_size=3),
    st.floats(0.01, 12.0),
)
@settings(max_examples=60)
def test_the_next_cost_is_that_of_enumeration(offers: list[tuple[float, int | None]], bound: float) -> None:
    instance = pool(*(price for price, _ in offers))
    gpus = tuple(replace(gpu_pool, count=count) for gpu_pool, (_, count) in zip(instance.gpus, offers, strict=True))
    largest_counts = [24 if count is None else count for _, count in offers]
    costs = (
        sum(n * price for n, (price, _) in zip(counts, offers, strict=True))
        for counts in product(*map(range, [m + 1 for m in largest_counts]))
    )

    cost = min((cost for cost in costs if cost >= bound * (1 - 1e-6)), default=bound)

    assert next_cost(bound, replace(instance, gpus=gpus)) == pytest.approx(cost, rel=1e-9)


def test_thousands_of_gpus_of_four_prices_need_little_memory() -> None:
    tracemalloc.start()
    assert next_cost(4000.0011, pool(0.526, 3.06, 4.1, 1.0)) == pytest.approx(4000.002)
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()
    assert next_cost(1e9, pool(3.06, 0.526)) == 1e9


@pytest.mark.parametrize(
    "prices", [(0.30000000000000004, 1.01), (5e-324, 1.0), (1e-300, 1.7e308), (1.7e308, 1.7e308), (5e-324, 1.7e308)]
)
def test_odd_prices_leave_the_bound_or_raise_it(prices: tuple[float, ...]) -> None:
    for bound in (1e-9, 0.35, 1.0, 1e10):
        assert next_cost(bound, pool(*prices)) >= bound * (1 - 1e-6)
        assert whole_gpus(bound, prices[0]) >= 1
    assert 0.0 <= cost_step(pool(*prices)) <= min(prices)


def test_a_cost_is_the_nearest_float_of_its_sum() -> None:
    assert next_cost(0.25, pool(0.1, 0.7)) == 0.3

"""Costs of whole GPUs: the step between them, and the next one; see also tests/bench/ledger/test_gap.py."""

from dataclasses import replace
from itertools import pairwise, product

import pytest

from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.costs import cost_step


def pool(*prices: float) -> Instance:
    types = [replace(gpu_type("v100"), name=f"gpu{i}", price_per_hour=price) for i, price in enumerate(prices)]
    return Instance("pool", Objective.COST, SloRule.HALF_SLO, "igniter", tuple(GpuPool(gpu) for gpu in types), ())


@pytest.mark.parametrize(
    ("prices", "step"), [((3.06,), 3.06), ((3.06, 1.53), 1.53), ((3.06, 0.526), 0.002), ((2.0, 3.0, 0.0), 1.0)]
)
def test_the_step_by_hand(prices: tuple[float, ...], step: float) -> None:
    assert cost_step(pool(*prices)) == pytest.approx(step, rel=1e-12)


def test_no_two_costs_are_closer_than_the_step() -> None:
    prices = (3.06, 1.1, 0.526)
    costs = sorted(
        {round(sum(c * p for c, p in zip(counts, prices, strict=True)), 9) for counts in product(range(6), repeat=3)}
    )

    closest = min(b - a for a, b in pairwise(costs))

    assert cost_step(pool(*prices)) <= closest + 1e-9

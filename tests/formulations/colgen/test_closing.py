"""Closing by enumeration: every pattern of a better plan is found, so optima and infeasible pools are proven."""

import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from instances import GpuPool, Instance
from instances.suites import suite
from tests.formulations import exhaustive
from tests.formulations.colgen.coarse import COARSE, pricer_of, small


def solve(instance: Instance, threads: int = 1) -> Outcome:
    return ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0, threads=threads))


@settings(max_examples=20)
@given(st.integers(0, 200), st.lists(st.sampled_from([-0.5, 0.0, 0.3, 1.0]), min_size=4, max_size=4), st.floats(-1, 2))
def test_with_a_bonus_pricing_lists_every_set_above_the_threshold(
    seed: int, profit: list[float], threshold: float
) -> None:
    """The sets also contain workloads whose profit is 0 or negative."""
    instance = small(seed, 4, GpuPool(COARSE))
    pricer = pricer_of(instance)
    worth = np.array([profit[int(pricer.workloads[w])] for w in pricer.choices.workload])
    expected = {
        members
        for n in range(1, 5)
        for members in combinations(range(4), n)
        if sum(profit[w] for w in members) > threshold + 1e-9
        and any(exhaustive.fitting_batches(instance, COARSE, members))
    }

    priced = pricer.price(worth, threshold, 10**6, 10**4, 10**5, bonus=2.0)

    listed = [tuple(w for w, _, _ in pattern.residents) for pattern in priced.patterns]
    assert not priced.cut_short
    assert expected <= set(listed)
    assert all(sum(profit[w] for w in members) > threshold - 1e-9 for members in listed)


@pytest.mark.parametrize("seed", range(12))
def test_a_pool_that_is_too_small_is_proven_so(seed: int) -> None:
    """A fraction of GPUs may suffice where no plan exists, so the bound alone does not prove it."""
    unbounded = small(seed, 5, GpuPool(COARSE))
    fewest = exhaustive.least_cost(unbounded)
    assert fewest is not None
    needed = round(fewest / COARSE.price_per_hour)

    enough = solve(replace(unbounded, gpus=(GpuPool(COARSE, needed),)))
    fewer = solve(replace(unbounded, gpus=(GpuPool(COARSE, needed - 1),)))

    assert enough.status is Status.OPTIMAL
    assert fewer.status is Status.INFEASIBLE
    assert fewer.reason


@pytest.mark.parametrize("seed", range(8))
def test_prices_that_differ_by_little_leave_no_better_plan_behind(seed: int) -> None:
    """A better plan may save much less than a GPU."""
    near = exhaustive.slower(COARSE, "near", 1.15, round(COARSE.price_per_hour - 0.07, 2))
    instance = small(seed, 4, GpuPool(COARSE, 2), GpuPool(near, 2))
    optimum = exhaustive.least_cost(instance)

    outcome = solve(instance)

    if optimum is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.plan is not None
    assert outcome.status is Status.OPTIMAL
    assert judge(outcome.plan, instance).value == pytest.approx(optimum, rel=1e-9)


def test_the_number_of_threads_may_change_in_one_process() -> None:
    (instance,) = suite("igniter-12").build()

    for threads in (1, 2, 1):
        outcome = solve(instance, threads)
        assert outcome.plan is not None
        assert judge(outcome.plan, instance).feasible
        assert outcome.plan.gpus_used == 6

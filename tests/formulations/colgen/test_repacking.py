"""Repacking: GPUs are emptied and packed again within a budget."""

import math
from itertools import pairwise

import numpy as np
import pytest

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.column_generation import ColumnGeneration, Solution
from formulations.colgen.spatial import repacking
from formulations.colgen.spatial.problem import SpatialProblem
from instances.pool_mix import pool_mix


def relaxed(size: int, seed: int, pool: str) -> tuple[SpatialProblem, ColumnGeneration]:
    """Return a problem and its column generation with the linear relaxation solved within one percent."""
    problem = SpatialProblem(pool_mix(size, seed, pool))
    generation = ColumnGeneration(problem, Run())
    generation.solve(lambda: generation.bound >= 0.99 * generation.relaxed().value)
    return problem, generation


@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_a_budget_that_suffices(seed: int) -> None:
    problem, generation = relaxed(14, seed, "v100:3,t4:6")
    state = repacking.BudgetSearch(problem, generation)
    optimum = ColGen().schedule(generation.instance, Run())
    assert optimum.status is Status.OPTIMAL
    assert optimum.plan is not None
    budget = judge(optimum.plan, generation.instance).value
    assert budget is not None

    found = state.search(budget, math.inf)

    assert found is not None
    generation.add(found)
    realised = generation.realise(generation.master.counts(found))
    assert realised is not None
    verdict = judge(realised[1], generation.instance)
    assert verdict.violations == ()
    assert verdict.value == pytest.approx(budget)


def test_steps_stay_in_the_budget_and_the_pool_and_leave_hardly_more_unserved() -> None:
    problem, generation = relaxed(18, 1, "v100:3,t4:6")
    state = repacking.BudgetSearch(problem, generation)
    budget = 0.97 * generation.bound  # no plan costs so little
    unserved = [state.unserved_worth()]

    for _ in range(6):
        state._step(budget, math.inf)

        pools = [gpu.pool for gpu in state.gpus]
        assert math.fsum(generation.problem.price[pools]) <= budget + 1e-6
        assert np.all(np.bincount(pools, minlength=2) <= generation.problem.count)
        assert all(problem.pattern_if_feasible(gpu.pool, gpu.residents) for gpu in state.gpus)
        unserved.append(state.unserved_worth())
    assert all(after <= before * (1.0 + 2.5 * repacking.NOISE) for before, after in pairwise(unserved))
    assert unserved[0] > unserved[-1] > 0.0


def test_a_mixed_pool_needs_no_plan_to_repack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a plan, the search starts from the patterns of the relaxation."""
    monkeypatch.setattr(repacking, "MOST_STALLED", 2)
    monkeypatch.setattr(repacking, "MOST_FAILURES", 20)
    problem, generation = relaxed(34, 1, "v100:6,t4:12")
    solved = Solution(generation, (), 0.5)
    assert repacking.suits(problem)
    assert not repacking.suits(SpatialProblem(pool_mix(34, 1, "v100,t4")))

    repacking.repack(problem, solved)

    assert solved.plan is not None
    assert judge(solved.plan, generation.instance).violations == ()
    assert solved.value < float(generation.problem.price @ generation.problem.count)

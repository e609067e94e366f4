"""Branch and price against brute force, mostly with the closing by enumeration switched off."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Bound, Duals, Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen, branching, integer_passes
from formulations.colgen.branching import Branch, Tree
from formulations.colgen.column_generation import cost_bound
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.problem import SpatialProblem
from instances import GpuPool, Instance, Plan
from instances.costs import next_cost
from tests.formulations import exhaustive
from tests.formulations.colgen.coarse import COARSE, V100, small
from tests.soak import first


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile the kernels before the time limit of a run begins."""
    for objective in ColGen.objectives:
        ColGen().warm(objective)


@pytest.fixture
def without_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the enumeration of patterns always fail, so that only branching can close the gap."""
    monkeypatch.setattr(integer_passes, "complete_below", lambda generation, worst: False)


def two_types(seed: int, size: int, counts: tuple[int | None, int | None] = (None, None)) -> Instance:
    """Return an instance on two GPU types: ``COARSE``, and a slower and cheaper one."""
    random = Random(seed)
    slow = exhaustive.slower(COARSE, "slow", random.choice((1.2, 1.5)), round(random.uniform(1.5, 2.9), 2))
    return small(seed, size, GpuPool(COARSE, counts[0]), GpuPool(slow, counts[1]))


def solve(instance: Instance, optimum: float | None) -> Outcome:
    """Run ``colgen``; no bound that it reports may exceed the optimum."""

    def listen(plan: Plan | None, bound: Bound | None) -> None:
        assert bound is None or optimum is None or bound.value <= optimum * (1 + 1e-9)

    return ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0, listener=listen))


@pytest.mark.parametrize("seed", first(10, range(16)))
def test_the_optimum_is_that_of_brute_force(seed: int, without_enumeration: None) -> None:
    counts = ((None, None), (2, 2), (1, None), (None, 1))[seed % 4]
    instance = two_types(seed, 4, counts)
    optimum = exhaustive.least_cost(instance)

    outcome = solve(instance, optimum)

    if optimum is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.plan is not None
    assert outcome.status is Status.OPTIMAL
    assert judge(outcome.plan, instance).value == pytest.approx(optimum, rel=1e-9)


@pytest.mark.parametrize(
    ("size", "seed", "factor", "price"),
    [(15, 3, 1.2, 1.95), pytest.param(18, 2, 1.2, 1.15, marks=pytest.mark.soak)],
)
def test_branching_closes_what_enumeration_leaves_open(
    size: int, seed: int, factor: float, price: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []
    enumerate_all = integer_passes.complete_below

    def complete_below(generation: ColumnGeneration, worst: float) -> bool:
        ended.append(enumerate_all(generation, worst))
        return ended[-1]

    monkeypatch.setattr(integer_passes, "complete_below", complete_below)
    slow = exhaustive.slower(V100, "slow", factor, price)
    instance = small(seed, size, GpuPool(V100), GpuPool(slow))

    outcome = solve(instance, None)

    assert ended == [False]
    assert outcome.status is Status.OPTIMAL


def test_the_plan_is_optimal_where_classes_have_several_workloads(without_enumeration: None) -> None:
    """Branching on pairs applies to classes of one workload only, so the search may end without a proof."""
    instance = small(3, 3, GpuPool(COARSE))
    doubled = (*instance.workloads, *(replace(w, id=f"{w.id}-again") for w in instance.workloads))
    instance = replace(instance, workloads=doubled)
    optimum = exhaustive.least_cost(instance)
    assert optimum is not None

    outcome = solve(instance, optimum)

    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value == pytest.approx(optimum)


def tree(instance: Instance, enough: Callable[[float], bool] = lambda bound: False) -> Tree:
    """Return the tree at its root; the search ends at a bound that is ``enough``."""
    problem = SpatialProblem(instance)
    generation = ColumnGeneration(problem, Run(deadline=time.monotonic() + 30.0))
    generation.solve(lambda: False)
    return Tree(problem, generation, enough, lambda counts: None)


def test_the_bound_of_a_tree_never_falls_and_never_exceeds_the_optimum() -> None:
    instance = two_types(1, 5)
    optimum = exhaustive.least_cost(instance)
    assert optimum is not None
    searched = tree(instance, lambda bound: bound >= optimum * (1 - 1e-6))

    bounds = [searched.bound]
    while searched.open and searched.step():
        bounds.append(searched.bound)

    assert bounds[:-1] == sorted(bounds[:-1])
    assert all(bound <= optimum * (1 + 1e-6) for bound in bounds[:-1])


def test_of_branches_with_one_least_cost_the_easiest_and_then_the_deepest_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance, ranks = small(3, 15, GpuPool(V100), GpuPool(exhaustive.slower(V100, "slow", 1.2, 1.95))), []
    searched, explore = tree(instance), Tree._solve

    def rank(branch: Branch) -> tuple[float, int, int]:
        return next_cost(branch.bound, instance), branch.nodes, -branch.depth

    def watched(searched: Tree, branch: Branch) -> object:
        ranks.append(rank(branch))
        assert all(rank(waiting) >= ranks[-1] for *_, waiting in searched._open)
        return explore(searched, branch)

    monkeypatch.setattr(Tree, "_solve", watched)
    while len(ranks) < 20 and searched.open and searched.step():
        pass

    assert len({depth for *_, depth in ranks}) > 1


@pytest.mark.parametrize("seed", range(3))
def test_branches_that_are_put_off_are_solved_later(
    seed: int, monkeypatch: pytest.MonkeyPatch, without_enumeration: None
) -> None:
    """With one node per box, the first pricing of nearly every branch is cut short."""
    monkeypatch.setattr(branching, "FIRST_NODES", 1)
    instance = two_types(seed, 5)
    optimum = exhaustive.least_cost(instance)
    assert optimum is not None

    outcome = solve(instance, optimum)

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value == pytest.approx(optimum, rel=1e-9)


@settings(max_examples=25)
@given(
    st.integers(0, 200),
    st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5),
    st.sets(st.sampled_from(list(combinations(range(5), 2))), max_size=2),
    st.sets(st.sampled_from(list(combinations(range(5), 2))), max_size=2),
)
def test_pricing_finds_the_best_set_that_a_branch_allows(
    seed: int, profit: list[float], apart: set[tuple[int, int]], together: set[tuple[int, int]]
) -> None:
    instance = small(seed, 5, GpuPool(COARSE))
    problem = SpatialProblem(instance)
    assert problem.class_of.tolist() == list(range(5))
    free = Branch(0.0, np.zeros(1), problem.count, 0, Duals((), ()))
    branch = replace(free, apart=tuple(apart), together=tuple(together))
    best = max(
        (
            sum(profit[w] for w in members)
            for size in range(1, 6)
            for members in combinations(range(5), size)
            if branch.allows(0, set(members)) and any(exhaustive.fitting_batches(instance, COARSE, members))
        ),
        default=0.0,
    )
    (pricer,) = problem.pricers
    pairs = branch.pairs(problem.order, problem.class_of)
    worth = np.array([profit[int(pricer.workloads[w])] for w in pricer.choices.workload])

    priced = pricer.price(worth, 0.0, 10**6, 10**4, 10**5, bonus=1e-9, pairs=pairs)

    best_priced = max((sum(profit[w] for w, _, _ in p.residents) for p in priced.patterns), default=0.0)
    assert best_priced == pytest.approx(best, abs=1e-7)
    assert priced.bound >= best - 1e-9
    for pattern in priced.patterns:
        assert branch.allows(0, {w for w, _, _ in pattern.residents})


def test_required_gpus_raise_the_bound_by_their_price_minus_their_worth() -> None:
    # Two workloads are worth 1 each. A GPU of either type is worth at most 1; the prices are 3 and 1. Two required GPUs
    # of the first type raise the bound of 2 by 2 * (3 - 1).
    dual, copies, worth = np.ones(2), np.ones(2), np.ones(2)
    price, count = np.array([3.0, 1.0]), np.full(2, np.inf)

    assert cost_bound(dual, copies, worth, price, count) == pytest.approx(2.0)
    assert cost_bound(dual, copies, worth, price, count, np.array([2.0, 0.0])) == pytest.approx(6.0)

"""Column generation against brute force on tiny instances, and on the papers' instances."""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Bound, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.column_generation import cost_bound, value_bound
from formulations.colgen.spatial.pricer import Pricer
from instances import GOODPUT_STEP, GpuPool, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.configurations import rates_of
from instances.dominance import dominates
from instances.generate import generate
from instances.least_shares import least_share_within, least_shares
from instances.one_gpu import Resident, fit_gpu
from instances.spare_shares import spend_spare_shares
from instances.suites import suite
from instances.view import View
from instances.workload_classes import identical_workloads

V100 = gpu_type("v100")
COARSE = replace(V100, name="coarse", share_units=8)
"""V100 in units of 12.5 %, so that brute force is quick enough."""

SLOW = replace(
    COARSE,
    name="slow",
    price_per_hour=1.1,
    models={
        name: replace(model, name=name, k=(*(1.7 * k for k in model.k[:3]), model.k[3], 1.7 * model.k[4]))
        for name, model in COARSE.models.items()
    },
)


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile the kernels before the time limit of a run begins."""
    for objective in ColGen.objectives:
        ColGen().warm(objective)


def small_instance(seed: int, size: int, objective: Objective, *pools: GpuPool) -> Instance:
    drawn = generate("igniter-mix", size, seed, objective, gpus=None)
    return replace(drawn, name=f"tiny-{seed}", gpus=pools or (GpuPool(COARSE),))


def batches_that_fit(view: View, members: tuple[int, ...], rates: tuple[float, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the combinations of batches with which ``members`` fit on one GPU; no batch above 16 is tried."""
    options = []
    for w, r in zip(members, rates, strict=True):
        budgets = {b: float(view.budget_ms(w, b, r)) for b in range(1, min(16, int(view.tables.max_batch.min())) + 1)}
        options.append(
            [
                (b, int(least_share_within(view.tables, view.model[w], b, np.full((1, 1), budget), 0)))
                for b, budget in budgets.items()
                if budget > 0.0
            ]
        )
    for combination in itertools.product(*options):
        if sum(units for _, units in combination) <= view.tables.share_units:
            batches = tuple(b for b, _ in combination)
            if fits(view, members, batches, rates):
                yield batches


def fits(view: View, members: tuple[int, ...], batches: tuple[int, ...], rates: tuple[float, ...]) -> bool:
    residents = [Resident(w, b, r) for w, b, r in zip(members, batches, rates, strict=True)]
    return fit_gpu(view, residents) is not None


def feasible_sets(view: View) -> set[tuple[int, ...]]:
    """Return every set of workloads that fits on one GPU at full rates, by adding one workload at a time.

    A set is tried only if all its subsets fit.
    """
    rates = tuple(float(r) for r in view.rate_rps)
    fitting: set[tuple[int, ...]] = set()
    same_size: list[tuple[int, ...]] = [()]
    while same_size:
        one_larger = []
        for members in same_size:
            for w in range(members[-1] + 1 if members else 0, len(rates)):
                larger = (*members, w)
                subsets = itertools.combinations(larger, len(larger) - 1)
                if len(larger) > 1 and any(subset not in fitting for subset in subsets):
                    continue
                if any(batches_that_fit(view, larger, tuple(rates[i] for i in larger))):
                    fitting.add(larger)
                    one_larger.append(larger)
        same_size = one_larger
    return fitting


def least_cost(instance: Instance) -> float:
    """Return the cost of the cheapest partition of the workloads into GPUs of the pool; inf if there is none."""
    sets = [
        (t, frozenset(members))
        for t, pool in enumerate(instance.gpus)
        for members in feasible_sets(View.of(instance, pool.type))
    ]

    @cache
    def best(unplaced: frozenset[int], free: tuple[float, ...]) -> float:
        if not unplaced:
            return 0.0
        first = min(unplaced)
        return min(
            (
                instance.gpus[t].type.price_per_hour
                + best(unplaced - members, tuple(count - (i == t) for i, count in enumerate(free)))
                for t, members in sets
                if first in members and members <= unplaced and free[t] > 0
            ),
            default=math.inf,
        )

    counts = tuple(math.inf if pool.count is None else float(pool.count) for pool in instance.gpus)
    return best(frozenset(range(len(instance.workloads))), counts)


def run_all(instance: Instance, limit_s: float = 60.0) -> tuple[Plan | None, Bound | None, Status, list[float]]:
    """Run ``colgen``; return its plan, bound and status, and the values of all bounds that it reported."""
    reported: list[float] = []

    def listen(plan: Plan | None, bound: Bound | None) -> None:
        if plan is not None:
            assert judge(plan, instance).feasible
        if bound is not None:
            assert bound.certified
            reported.append(bound.value)

    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + limit_s, listener=listen))
    return outcome.plan, outcome.bound, outcome.status, reported


@pytest.mark.parametrize("seed", range(8))
def test_cost_optimum_is_that_of_brute_force(seed: int) -> None:
    instance = small_instance(seed, 3 + seed % 3, Objective.COST)
    optimum = least_cost(instance)
    plan, bound, status, reported = run_all(instance)
    if math.isinf(optimum):
        assert plan is None
        return
    assert plan is not None
    assert bound is not None
    verdict = judge(plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(optimum)
    assert status is Status.OPTIMAL
    assert max(reported) <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_cost_optimum_on_two_bounded_types_is_that_of_brute_force(seed: int) -> None:
    pools = (GpuPool(COARSE, 2), GpuPool(SLOW, 2))
    instance = small_instance(seed, 4, Objective.COST, *pools)
    optimum = least_cost(instance)
    plan, _, _, reported = run_all(instance)
    if math.isinf(optimum):
        assert plan is None
        return
    assert plan is not None
    assert judge(plan, instance).value == pytest.approx(optimum)
    assert judge(plan, instance).feasible
    assert max(reported) <= optimum * (1 + 1e-9)


def most_goodput(instance: Instance) -> float:
    """Return the best goodput on the GPUs of one type, by brute force over sets, rate steps and batches."""
    (pool,) = instance.gpus
    view = View.of(instance, pool.type)
    workloads = range(len(instance.workloads))
    steps = round(1 / GOODPUT_STEP)

    def rate(w: int, step: int) -> float:
        return float(view.rate_rps[w]) * GOODPUT_STEP * step

    @cache
    def serves(members: tuple[int, ...], member_steps: tuple[int, ...]) -> bool:
        rates = tuple(rate(w, step) for w, step in zip(members, member_steps, strict=True))
        return any(batches_that_fit(view, members, rates))

    def value(members: tuple[int, ...]) -> float:
        if not members:
            return 0.0

        def total_rps(member_steps: tuple[int, ...]) -> float:
            return sum(rate(w, step) for w, step in zip(members, member_steps, strict=True))

        combinations = itertools.product(range(1, steps + 1), repeat=len(members))
        for member_steps in sorted(combinations, key=total_rps, reverse=True):
            if serves(members, member_steps):
                return total_rps(member_steps)
        return 0.0

    best = {m: value(m) for n in range(len(instance.workloads) + 1) for m in itertools.combinations(workloads, n)}
    return max(
        sum(best[tuple(w for w in workloads if owner[w] == g)] for g in range(int(pool.count or 0)))
        for owner in itertools.product(range(-1, int(pool.count or 0)), repeat=len(instance.workloads))
    )


@pytest.mark.parametrize("seed", range(3))
def test_goodput_optimum_is_that_of_brute_force(seed: int) -> None:
    drawn = generate("overload-mix", 2, seed, Objective.GOODPUT, gpus=1)
    instance = replace(drawn, gpus=(GpuPool(COARSE, 1),))
    optimum = most_goodput(instance)
    plan, bound, status, reported = run_all(instance)
    assert plan is not None
    assert bound is not None
    assert judge(plan, instance).feasible
    assert judge(plan, instance).value == pytest.approx(optimum)
    assert status is Status.OPTIMAL
    assert min(reported) >= optimum * (1 - 1e-9)


def most_capacity(instance: Instance) -> float:
    """Return the most throughput on the GPUs of one type, over all partitions and batches up to 16.

    The exact kernel chooses the shares.
    """
    (pool,) = instance.gpus
    view = View.of(instance, pool.type)
    rates = tuple(float(r) for r in view.rate_rps)

    @cache
    def value(members: tuple[int, ...]) -> float:
        best = 0.0 if not members else -math.inf
        for batches in batches_that_fit(view, members, tuple(rates[w] for w in members)) if members else []:
            index, batch = np.array(members), np.array(batches)
            units = np.zeros(len(members), dtype=np.int64)
            budget = view.budgets_ms(index, batch)
            assert least_shares(view.tables, view.model[index], batch, budget, units)
            total, proven = spend_spare_shares(view.tables, view.model[index], batch, budget, units, 10**7)
            assert proven
            best = max(best, total)
        return best

    workloads = range(len(rates))
    return max(
        sum(value(tuple(w for w in workloads if owner[w] == g)) for g in range(int(pool.count or 0)))
        for owner in itertools.product(range(int(pool.count or 0)), repeat=len(rates))
    )


@pytest.mark.parametrize("seed", range(4))
def test_capacity_optimum_is_that_of_brute_force(seed: int) -> None:
    top_16 = replace(COARSE, models={n: replace(m, max_batch=16) for n, m in COARSE.models.items()})
    drawn = generate("igniter-mix", 3, seed, Objective.CAPACITY, gpus=2)
    instance = replace(drawn, gpus=(GpuPool(top_16, 2),))
    optimum = most_capacity(instance)
    plan, _, status, reported = run_all(instance, limit_s=20.0)
    assert plan is not None
    verdict = judge(plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(optimum, rel=1e-9)
    assert min(reported) >= optimum * (1 - 1e-9)
    assert status is Status.OPTIMAL


@settings(max_examples=15)
@given(st.integers(0, 200), st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4))
def test_pricing_finds_the_best_pattern(seed: int, profit: list[float]) -> None:
    instance = small_instance(seed, 4, Objective.COST)
    view = View.of(instance, COARSE)
    order, copy_of, _ = identical_workloads(instance)
    pricer = Pricer(view, 0, order, copy_of, [rates_of(instance, w) for w in range(4)])
    worth = np.array([profit[int(order[w])] for w in pricer.choices.workload])
    best = max((sum(profit[w] for w in members) for members in feasible_sets(view)), default=0.0)
    priced = pricer.price(worth, 0.0, node_limit=10**6, pattern_limit=10**4, stop_after=10**5)
    best_priced = max((sum(profit[w] for w, _, _ in p.residents) for p in priced.patterns), default=0.0)
    assert best_priced == pytest.approx(best, abs=1e-12)
    assert priced.bound >= best - 1e-12
    for pattern in priced.patterns:
        assert fit_gpu(view, pattern.residents) is not None


@settings(max_examples=15)
@given(st.integers(0, 200), st.floats(0.0, 2.0), st.integers(1, 50))
def test_a_pricing_bound_holds_whatever_the_limits(seed: int, threshold: float, node_limit: int) -> None:
    instance = small_instance(seed, 4, Objective.COST)
    view = View.of(instance, COARSE)
    order, copy_of, _ = identical_workloads(instance)
    pricer = Pricer(view, 0, order, copy_of, [rates_of(instance, w) for w in range(4)])
    profit = np.ones(len(pricer.choices.workload))
    best = max((float(len(members)) for members in feasible_sets(view)), default=0.0)
    priced = pricer.price(profit, threshold, node_limit, pattern_limit=2)
    if best > threshold:
        assert priced.bound >= best - 1e-9


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 16), st.integers(1, 16))
def test_a_dominated_batch_can_be_replaced(seed: int, batch: int, other: int) -> None:
    instance = small_instance(seed, 3, Objective.COST)
    view = View.of(instance, COARSE)
    budgets = np.full((17, 1), -np.inf)
    budgets[1:] = view.budgets_ms(0, np.arange(1, 17))
    possible = budgets[[batch, other]].min() > 0.0
    if not possible or not dominates(view.tables, int(view.model[0]), batch, other, budgets, False):
        return
    rates = tuple(float(r) for r in view.rate_rps)
    for neighbour_batches in itertools.product(range(1, 9), repeat=2):
        if fits(view, (0, 1, 2), (other, *neighbour_batches), rates):
            assert fits(view, (0, 1, 2), (batch, *neighbour_batches), rates)


def test_a_start_plan_is_reported_even_without_time() -> None:
    (instance,) = suite("igniter-12").build()
    plan, _, _, _ = run_all(instance)
    reported: list[Plan] = []
    run = Run(deadline=time.monotonic(), start=plan, listener=lambda p, _: reported.append(p) if p else None)
    ColGen().schedule(instance, run)
    assert min(p.gpus_used for p in reported) == 6


def test_twelve_workloads_need_six_gpus() -> None:
    (instance,) = suite("igniter-12").build()
    plan, bound, status, _ = run_all(instance)
    assert plan is not None
    assert bound is not None
    assert plan.gpus_used == 6
    assert status is Status.OPTIMAL
    assert 5 * 3.06 < bound.value <= 6 * 3.06


@pytest.mark.parametrize("limit_s", [0.0, 0.05, 0.5])
def test_early_stop_leaves_valid_bounds(limit_s: float) -> None:
    (instance,) = suite("igniter-12").build()
    _, _, _, reported = run_all(instance, limit_s)
    assert all(value <= 6 * 3.06 for value in reported)


def test_oversized_workload_is_infeasible_and_named() -> None:
    instance = Instance(
        "big", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), (Workload("W7", "ssd", 25.0, 900.0),)
    )
    outcome = ColGen().schedule(instance, Run())
    assert outcome.status is Status.INFEASIBLE
    assert "W7" in outcome.reason


def test_identical_workloads_form_one_class() -> None:
    first = Workload("a", "alexnet", 15.0, 500.0)
    different = Workload("c", "resnet50", 40.0, 400.0)
    workloads = (first, different, replace(first, id="b"), replace(first, id="d"))
    instance = Instance("copies", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), workloads)
    order, copy_of, class_of = identical_workloads(instance)
    assert class_of.tolist() == [0, 1, 0, 0]
    assert order.tolist() == [0, 2, 3, 1]
    assert copy_of.tolist() == [-1, 0, 1, -1]
    plan, _, status, _ = run_all(instance)
    assert plan is not None
    assert status is Status.OPTIMAL
    assert sorted(slot.workload for _, _, slot in plan.slots()) == ["a", "b", "c", "d"]


def test_bounds_are_those_worked_out_by_hand() -> None:
    # Duals 1 and 2 on two workloads; the best pattern is worth 1.5 times the price of 2: 3 / 1.5 = 2.
    unlimited, one = np.array([np.inf]), np.array([1.0])
    dual, copies = np.array([1.0, 2.0]), np.ones(2)
    assert cost_bound(dual, copies, np.array([3.0]), np.array([2.0]), unlimited) == pytest.approx(2.0)
    # With one GPU, a pattern's worth above its price, 3 - 2 = 1, is subtracted once: 3 - 1 = 2, as at the factor 2/3.
    assert cost_bound(dual, copies, np.array([3.0]), np.array([2.0]), one) == pytest.approx(2.0)
    assert cost_bound(dual, copies, np.array([np.inf]), np.array([2.0]), unlimited) == 0.0
    assert value_bound(dual, copies, np.array([4.0]), one) == pytest.approx(7.0)
    assert value_bound(dual, copies, np.array([-4.0]), one) == pytest.approx(3.0)


def test_a_gpu_type_on_which_neighbours_help_is_not_solved() -> None:
    helpful = replace(COARSE, models={n: replace(m, alpha_cache=-0.1) for n, m in COARSE.models.items()})

    outcome = ColGen().schedule(small_instance(0, 3, Objective.COST, GpuPool(helpful)), Run())

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is None
    assert "no bound would hold" in outcome.reason

"""Ruin and recreate: brute force on tiny instances, known values, starts, deadlines and work limits."""

import time
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from bench.api import Bound, Run, Status
from bench.judging.judge import judge
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from heuristics.baselines.ruin_recreate import RuinRecreate
from instances import SCALE_STEP, Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.pool_mix import pool_mix
from instances.suites import suite
from tests.formulations import exhaustive
from tests.frozen import frozen

V100 = gpu_type("v100")
SMALL = exhaustive.small_batches(V100, 4)
SLOW = exhaustive.slower(SMALL, "slow", 2.0, 1.0)
IN_64GPU = {instance.name: instance for instance in suite("64gpu").build()}


def drawn(seed: int, objective: Objective, pools: tuple[GpuPool, ...], count: int = 4) -> Instance:
    workloads = exhaustive.draw_workloads(Random(seed), SMALL, count, (0.2, 0.6))
    return Instance("mix", objective, SloRule.HALF_SLO, "igniter", pools, workloads)


def value_of(problem: Instance, rounds: int, start: Plan | None = None) -> float:
    """Return the value of the plan, after checking that it has no violations."""
    outcome = RuinRecreate(rounds).schedule(problem, Run(start=start))
    assert outcome.status is Status.FEASIBLE, outcome.reason
    assert outcome.plan is not None
    verdict = judge(outcome.plan, problem)
    assert verdict.violations == ()
    assert verdict.value is not None
    return verdict.value


# --- Brute force ---


@pytest.mark.parametrize("seed", range(8))
def test_tiny_costs_are_optimal(seed: int) -> None:
    problem = drawn(seed, Objective.COST, (GpuPool(SMALL), GpuPool(SLOW, 2)))

    assert value_of(problem, 2000) == pytest.approx(exhaustive.least_cost(problem))


@pytest.mark.parametrize("seed", range(6))
def test_tiny_goodputs_are_optimal(seed: int) -> None:
    problem = drawn(seed, Objective.GOODPUT, (GpuPool(SMALL, 1),), count=3)
    best = exhaustive.most_goodput(problem)

    assert 0.99 * best <= value_of(problem, 2000) <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_tiny_capacities_are_optimal(seed: int) -> None:
    problem = drawn(seed, Objective.CAPACITY, (GpuPool(SMALL, 2),), count=3)

    assert value_of(problem, 500) == pytest.approx(exhaustive.most_capacity(problem))


@pytest.mark.parametrize("seed", range(6))
def test_tiny_scales_are_optimal(seed: int) -> None:
    problem = drawn(seed, Objective.SCALE, (GpuPool(SMALL, 1), GpuPool(SLOW, 1)), count=3)
    best = exhaustive.largest_scale(problem, SCALE_STEP)

    assert best is not None
    assert best - SCALE_STEP <= value_of(problem, 4000) + 1e-9 <= best + 2e-9


# --- Known values ---


def test_160_workloads_need_at_most_60_gpus() -> None:
    """The proven optimum is 59 GPUs."""
    assert value_of(IN_64GPU["64gpu-cost"], 300) <= 60 * 3.06 * (1 + 1e-9)


@pytest.mark.parametrize(
    "problem",
    [
        pool_mix(60, 0, "v100,t4", rates="few-large"),
        frozen("hetero-2-40"),
        generate("heavy-mix", 30, 4, Objective.GOODPUT, gpus=4),
        IN_64GPU["64gpu-goodput"],
    ],
    ids=lambda problem: problem.name,
)
def test_ruin_recreate_is_no_worse_than_local_search_after_300_rounds(problem: Instance) -> None:
    plan = LocalSearch(rounds=300).schedule(problem, Run()).plan
    assert plan is not None
    reference, value = judge(plan, problem).value, value_of(problem, 300)
    assert reference is not None

    sign = -1 if problem.objective.minimised else 1
    assert sign * value >= sign * reference


# --- Anytime ---


@pytest.mark.parametrize(
    "problem", [frozen("hetero-2-40"), IN_64GPU["64gpu-goodput"]], ids=lambda problem: problem.name
)
def test_incumbents_improve_and_the_last_is_the_result(problem: Instance) -> None:
    reports: list[Plan] = []

    def listener(plan: Plan | None, bound: Bound | None) -> None:
        assert plan is not None
        assert bound is None
        reports.append(plan)

    start = RandomFit().schedule(problem, Run()).plan
    outcome = RuinRecreate(300).schedule(problem, Run(start=start, listener=listener))

    values = [judge(plan, problem).value or 0.0 for plan in reports]
    improvement = -1 if problem.objective.minimised else 1
    assert reports[-1] == outcome.plan
    assert len(values) > 1
    assert all(improvement * (later - earlier) > 0.0 for earlier, later in pairwise(values))


@pytest.mark.parametrize("name", ["64gpu-cost", "64gpu-goodput"])
def test_after_the_deadline_the_first_plan_is_returned(name: str) -> None:
    outcome = RuinRecreate().schedule(IN_64GPU[name], Run(deadline=time.monotonic()))

    assert outcome.statistics["rounds"] == 0
    assert outcome.plan is not None
    assert judge(outcome.plan, IN_64GPU[name]).feasible


def test_rounds_stay_within_the_work_limit() -> None:
    for objective, gpus in ((Objective.GOODPUT, 2), (Objective.CAPACITY, 6), (Objective.SCALE, 3)):
        problem = generate("overload-mix", 6, 3, objective, gpus=gpus)
        outcome = RuinRecreate().schedule(problem, Run(work_limit=150))
        assert outcome.statistics["rounds"] <= 150


# --- From a start ---


def test_a_good_start_is_kept() -> None:
    """The start has batches that the search would not choose, and a split workload."""
    workloads = (Workload("a", "alexnet", 20.0, 400.0), Workload("v", "vgg19", 40.0, 100.0))
    problem = Instance("mix", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), workloads)
    slots = [("a", 7, 7, 250.0), ("v", 12, 3, 100.0), ("a", 9, 6, 150.0)]
    start = Plan("mix", (PlacedGpu("v100", tuple(Gpulet(u, (Slot(w, b, r),)) for w, u, b, r in slots)),))
    assert judge(start, problem).feasible

    plan = RuinRecreate(300).schedule(problem, Run(start=start)).plan

    assert plan is not None
    assert [slot for _, _, slot in plan.slots()] == [slot for _, _, slot in start.slots()]


@pytest.mark.parametrize("name", ["64gpu-cost", "64gpu-goodput"])
def test_the_first_plan_from_a_start_is_no_worse(name: str) -> None:
    problem = IN_64GPU[name]
    start = LocalSearch(rounds=300).schedule(problem, Run()).plan
    assert start is not None
    value = judge(start, problem).value
    assert value is not None

    sign = -1 if problem.objective.minimised else 1
    assert sign * value_of(problem, 0, start) >= sign * value * (1 + sign * -1e-9)


def test_a_start_under_scale_is_never_made_worse() -> None:
    problem = drawn(3, Objective.SCALE, (GpuPool(SMALL, 2),), count=5)
    start = RuinRecreate(2000).schedule(problem, Run()).plan
    assert start is not None
    value = judge(start, problem).value
    assert value is not None

    assert value_of(problem, 1, start) >= value - 1e-9


def test_free_gpus_are_used() -> None:
    problem = drawn(1, Objective.COST, (GpuPool(replace(SMALL, price_per_hour=0.0)), GpuPool(SLOW, 2)))

    assert value_of(problem, 500) == 0.0


def test_no_workloads_need_no_gpus() -> None:
    problem = Instance("none", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), ())

    assert value_of(problem, 10) == 0.0
    assert np.isfinite(value_of(replace(problem, objective=Objective.SCALE, gpus=(GpuPool(V100, 1),)), 10))

"""``plan_class=auto``: spatial plans first, then those of the widest class that the rule permits."""

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.scheduler import SearchedClass
from formulations.colgen.temporal.generation import TemporalGeneration
from formulations.colgen.temporal.gpulet_positions import SLOTS
from formulations.colgen.temporal.search import PlanSearch
from instances import Instance, Objective, PlanClass, SloRule
from instances.files import read_instance
from instances.suites import suite
from tests.formulations import turns

MIXED = Path(__file__).parents[2] / "fixtures" / "eight_a100_four_t4.json"
BEST = {True: min, False: max}
"""Function that returns the best of several values, by whether the objective is minimised."""


def solve(instance: Instance, plan_class: SearchedClass, work: int = 1_000_000) -> Outcome:
    run = Run(deadline=time.monotonic() + 600.0, work_limit=work)
    return ColGen(plan_class=plan_class).schedule(instance, run)


def value_of(outcome: Outcome, instance: Instance) -> float | None:
    if outcome.plan is None:
        return None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    return verdict.value


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE])
@pytest.mark.parametrize("seed", range(3))
def test_no_plan_is_worse_than_the_spatial_one(objective: Objective, seed: int) -> None:
    instance = turns.drawn_for(PlanClass.SPATIO_TEMPORAL, objective, seed)
    spatial, auto = solve(instance, SearchedClass.SPATIAL), solve(instance, SearchedClass.AUTO)

    values = [value_of(outcome, instance) for outcome in (spatial, auto)]

    assert auto.statistics["spatial_optimal"] == float(spatial.status is Status.OPTIMAL)
    if spatial.bound is not None:
        assert auto.statistics["spatial_bound"] == pytest.approx(spatial.bound.value)
    if values[0] is not None:
        assert values[1] is not None
        best = BEST[objective.minimised](value for value in values if value is not None)
        assert values[1] == pytest.approx(best, rel=1e-9)
        assert auto.bound is not None
        assert auto.bound.plan_class is PlanClass.SPATIO_TEMPORAL


def test_under_attainment_workloads_are_split_but_take_no_turns() -> None:
    (instance,) = suite("igniter-3").build()
    instance = replace(instance, slo_rule=SloRule.ATTAINMENT, workloads=instance.workloads[:1])

    outcome = solve(instance, SearchedClass.AUTO, 100_000)

    assert outcome.bound is not None
    assert outcome.bound.plan_class is PlanClass.SPLIT
    assert {"spatial_bound", "spatial_optimal"} <= outcome.statistics.keys()
    assert value_of(outcome, instance) is not None


@pytest.mark.soak
def test_five_gpus_serve_the_twelve_workloads_of_igniter() -> None:
    """Spatial plans need six GPUs."""
    (instance,) = suite("igniter-12").build()

    outcome = solve(instance, SearchedClass.AUTO, 40_000_000)

    assert outcome.status is Status.OPTIMAL
    assert value_of(outcome, instance) == pytest.approx(5 * 3.06)
    assert outcome.statistics["spatial_bound"] > 5 * 3.06


def test_plans_built_gpu_by_gpu_split_workloads_and_take_turns() -> None:
    """The plan of elastic partitioning costs $16.40/h, and the best spatial plan $18.50/h."""
    instance = read_instance(MIXED)
    search = PlanSearch(TemporalGeneration(instance, Run(), SLOTS))

    for _ in range(40):
        if search.value > 16.4:
            search.cover(math.inf)

    assert search.plan is not None
    verdict = judge(search.plan, instance)
    assert verdict.violations == ()
    assert verdict.value == pytest.approx(search.value)
    assert search.value <= 16.4 + 1e-9


@pytest.mark.soak
def test_on_two_gpu_types_the_plan_is_cheaper_than_the_best_spatial_plan() -> None:
    instance = read_instance(MIXED)

    outcome = solve(instance, SearchedClass.AUTO, 15_000_000)

    value = value_of(outcome, instance)
    assert value is not None
    assert value <= 16.4 + 1e-9
    assert outcome.statistics["spatial_bound"] == pytest.approx(18.504)
    assert outcome.statistics["spatial_optimal"] == 1.0
    assert outcome.bound is not None
    assert outcome.bound.value <= 16.4

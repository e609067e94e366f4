"""``colgen`` finds and proves the optimum of small instances of every class, objective, analytic rule and model."""

import math
import time

import pytest

from bench.api import Bound, Outcome, Plan, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.scheduler import SearchedClass
from instances import SCALE_STEP, Instance, Objective, PlanClass
from tests.formulations import turns

CLASSES = (PlanClass.SPATIAL, PlanClass.SPLIT, PlanClass.SPATIO_TEMPORAL)
OBJECTIVES = (Objective.COST, Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE)
AGREEMENT = 2e-6
"""Relative difference that the scheduler forgives between a value and its bound."""

WORK = 6_000_000
"""Work limit of a run: the tests do not depend on the speed of the machine."""


def solve(instance: Instance, plan_class: PlanClass) -> tuple[Outcome, list[float]]:
    """Return the outcome and all certified bounds that were reported."""
    bounds: list[float] = []

    def listen(_: Plan | None, bound: Bound | None) -> None:
        if bound is not None and bound.certified:
            bounds.append(bound.value)

    run = Run(deadline=time.monotonic() + 600.0, work_limit=WORK, listener=listen)
    outcome = ColGen(plan_class=SearchedClass(plan_class)).schedule(instance, run)
    listen(None, outcome.bound)
    return outcome, bounds


def agree(seed: int) -> Status:
    """Compare plan, bounds and status of case ``seed`` with the optimum; the seed also chooses class and objective."""
    plan_class = CLASSES[seed % len(CLASSES)]
    objective = OBJECTIVES[seed // len(CLASSES) % len(OBJECTIVES)]
    instance = turns.drawn_for(plan_class, objective, seed)
    optimum = turns.optimum(instance, plan_class)

    outcome, bounds = solve(instance, plan_class)

    if not optimum:
        assert outcome.plan is None or not judge(outcome.plan, instance).value
        return outcome.status
    assert bounds
    rounding = 1e-9 * optimum
    if objective.minimised:
        assert max(bounds) <= optimum + rounding
    else:
        assert min(bounds) >= optimum - rounding
    assert outcome.status is not Status.INFEASIBLE, outcome.reason
    assert outcome.plan is not None, outcome.reason
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    assert verdict.value is not None
    if plan_class is PlanClass.SPATIAL and objective is Objective.SCALE:
        optimum = SCALE_STEP * math.floor(optimum / SCALE_STEP + AGREEMENT)
    assert verdict.value == pytest.approx(optimum, rel=AGREEMENT)
    assert plan_class.contains(outcome.plan.plan_class)
    return outcome.status


def test_the_optimum_is_found(subtests: pytest.Subtests) -> None:
    for seed in range(24):
        with subtests.test(seed=seed):
            agree(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(500))
def test_the_optimum_is_found_in_many_cases(seed: int) -> None:
    agree(seed)

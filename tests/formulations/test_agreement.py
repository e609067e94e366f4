"""Agreement of independent exact methods: CP-SAT, column generation, SCIP and plain enumeration."""

import math
import time
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from formulations.minlp import Minlp
from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.suites import suite
from tests.formulations import enumeration, exhaustive
from tests.soak import first

V100 = gpu_type("v100")
COARSE = replace(V100, name="coarse", share_units=10)
GAPS = replace(V100, name="gaps", allowed_shares=(4, 8, 10, 16, 20, 24, 32, 40))
FEW = exhaustive.small_batches(replace(V100, name="few", share_units=8), 4)
OBJECTIVES = (Objective.COST, Objective.GOODPUT, Objective.SCALE, Objective.CAPACITY)
MOST_WORKLOADS = {Objective.COST: 8, Objective.GOODPUT: 8, Objective.SCALE: 8, Objective.CAPACITY: 6}
"""Largest number of workloads with which enumeration stays quick."""


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile and import before the time limit of a run begins."""
    for scheduler, objective in product((CpSat(), ColGen()), OBJECTIVES):
        scheduler.warm(objective)


def case(seed: int) -> Instance:
    """Return instance number ``seed``: the seed chooses the objective, one or two GPU types, and an analytic rule."""
    random = Random(seed)
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    size = 1 + seed // len(OBJECTIVES) % MOST_WORKLOADS[objective]
    family = "overload-mix" if objective is Objective.GOODPUT else "igniter-mix"
    gpu = FEW if objective is Objective.CAPACITY else random.choice((V100, COARSE, GAPS))
    bounded = objective is not Objective.COST
    pools = [GpuPool(gpu, random.randint(1, 3) if bounded or random.random() < 0.5 else None)]
    if random.random() < 0.4:
        slow = exhaustive.slower(gpu, "slow", random.choice((1.2, 1.6)), round(random.uniform(0.9, 3.0), 2))
        pools.append(GpuPool(slow, random.randint(1, 2) if bounded or random.random() < 0.5 else None))
    rules = [SloRule.HALF_SLO, SloRule.DUTY_CYCLE] + [SloRule.ASSEMBLY] * (objective is not Objective.SCALE)
    return replace(
        generate(family, size, 1000 + seed, objective),
        gpus=tuple(pools),
        slo_rule=random.choice(rules),
        latency_buffer=random.choice((1.0, 1.1)),
    )


def solve(scheduler: CpSat | ColGen | Minlp, instance: Instance, optimum: float | None, limit_s: float) -> Outcome:
    """Run a scheduler; its plan must be feasible, and neither plan nor certified bounds may contradict the optimum."""
    bounds: list[float] = []
    run = Run(
        deadline=time.monotonic() + limit_s,
        listener=lambda _, bound: bounds.append(bound.value) if bound is not None and bound.certified else None,
    )
    outcome = scheduler.schedule(instance, run)
    assert optimum is None or outcome.status is not Status.INFEASIBLE
    if outcome.plan is not None:
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible, verdict.violations
        assert verdict.value is not None
        assert optimum is not None
        assert not better(instance, verdict.value, optimum)
        if outcome.status is Status.OPTIMAL:
            assert math.isclose(verdict.value, optimum, rel_tol=1e-6 if isinstance(scheduler, Minlp) else 1e-9)
    if outcome.bound is not None and outcome.bound.certified:
        bounds.append(outcome.bound.value)
    if optimum is not None:
        assert not any(better(instance, optimum, bound) for bound in bounds)
    return outcome


def better(instance: Instance, value: float, other: float) -> bool:
    """Return whether a value is better than another by more than rounding."""
    rounding = 1e-9 * max(abs(value), abs(other))
    return value < other - rounding if instance.objective.minimised else value > other + rounding


def agree(instance: Instance, with_scip: bool = False) -> dict[str, Status]:
    """Compare all methods that support the instance's objective with enumeration; return their statuses by name."""
    optimum = enumeration.optimum(instance)
    statuses = {}
    for scheduler in (CpSat(), ColGen()):
        if instance.objective in scheduler.objectives:
            outcome = solve(scheduler, instance, optimum, 120.0)
            statuses[scheduler.name] = outcome.status
            expected = Status.INFEASIBLE if optimum is None else Status.OPTIMAL
            assert outcome.status is expected, (scheduler.name, outcome.reason)
    if with_scip and len(instance.workloads) <= 3 and instance.objective in Minlp.objectives:
        statuses["minlp"] = solve(Minlp(), instance, optimum, 10.0).status
    return statuses


@pytest.mark.parametrize("seed", first(4, range(16)))
def test_all_methods_find_the_same_optimum(seed: int) -> None:
    agree(case(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_all_methods_agree_on_many_instances(seed: int) -> None:
    agree(case(seed), with_scip=True)


def on_two_v100(size: int, seed: int) -> Instance:
    return replace(generate("igniter-mix", size, seed, Objective.SCALE), gpus=(GpuPool(V100, 2),))


def test_a_batch_whose_own_power_throttles_the_gpu_does_not_exclude_its_workload() -> None:
    agree(on_two_v100(2, 1098))


def test_sets_with_many_undominated_batches_are_decided() -> None:
    """Some set of these workloads has more combinations of batches than one short search tries."""
    agree(on_two_v100(4, 1170))


def test_the_papers_instances_need_as_many_gpus_as_in_the_papers() -> None:
    for name, gpus in (("igniter-3", 1), ("igniter-12", 6)):
        (instance,) = suite(name).build()
        for scheduler in (CpSat(), ColGen()):
            assert solve(scheduler, instance, gpus * 3.06, 60.0).status is Status.OPTIMAL

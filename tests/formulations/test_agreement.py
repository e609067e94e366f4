"""Two independent exact methods, a compact model and column generation, agree on every objective both claim."""

import math
import time
from dataclasses import replace

import pytest

from bench.api import Run, Status
from bench.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import GpuPool, Instance, Objective
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.suites import suite

COARSE = replace(gpu_type("v100"), name="coarse", share_units=10)
EXACT = (CpSat(), ColGen())


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compile and import before any clock starts."""
    for scheduler in EXACT:
        scheduler.warm()


def optimum(scheduler: CpSat | ColGen, instance: Instance) -> float | None:
    """Return the proven optimum, ``None`` where there is proof or claim of no plan."""
    heard: list[float] = []
    run = Run(deadline=time.monotonic() + 60.0, listener=lambda _, bound: heard.append(bound.value) if bound else None)
    outcome = scheduler.schedule(instance, run)
    if outcome.plan is None:
        return None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible, verdict.violations
    assert verdict.value is not None
    assert outcome.status is Status.OPTIMAL, (scheduler.name, outcome.reason)
    for bound in heard:
        if instance.objective.minimised:
            assert bound <= verdict.value * (1 + 1e-9)
        else:
            assert bound >= verdict.value * (1 - 1e-9)
    return verdict.value


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.SCALE])
@pytest.mark.parametrize("seed", range(6))
def test_both_find_the_same_optimum(objective: Objective, seed: int) -> None:
    family, size = ("overload-mix", 3) if objective is Objective.GOODPUT else ("igniter-mix", 3 + seed % 3)
    pool = GpuPool(COARSE, None if objective is Objective.COST else 2)
    instance = replace(generate(family, size, seed, objective, gpus=2), gpus=(pool,))
    ours, theirs = (optimum(scheduler, instance) for scheduler in EXACT)
    if ours is None or theirs is None:
        assert ours is theirs
    else:
        assert math.isclose(ours, theirs, rel_tol=1e-9)


def test_both_prove_the_papers_instances() -> None:
    for name, gpus in (("igniter-3", 1), ("igniter-12", 6)):
        (instance,) = suite(name).build()
        assert [optimum(scheduler, instance) for scheduler in EXACT] == pytest.approx([gpus * 3.06] * 2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_both_agree_on_many(seed: int) -> None:
    agree(seed)


def test_a_batch_that_throttles_itself_does_not_rule_a_workload_out() -> None:
    agree(98)


def agree(seed: int) -> None:
    """Compare both on a small random instance."""
    objective = (Objective.COST, Objective.GOODPUT, Objective.SCALE)[seed % 3]
    family, size = ("overload-mix", 2 + seed % 3) if objective is Objective.GOODPUT else ("igniter-mix", 2 + seed % 7)
    gpu = COARSE if seed % 2 else gpu_type("v100")
    pool = GpuPool(gpu, None if objective is Objective.COST else 2)
    instance = replace(generate(family, size, 1000 + seed, objective, gpus=2), gpus=(pool,))
    ours, theirs = (optimum(scheduler, instance) for scheduler in EXACT)
    if ours is None or theirs is None:
        assert ours is theirs
    else:
        assert math.isclose(ours, theirs, rel_tol=1e-9)

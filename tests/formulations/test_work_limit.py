"""Work limits: the results of schedulers that count their work do not depend on the time that it takes."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, cycle

import pytest

from bench.api import Outcome, Run, Scheduler
from formulations.colgen.scheduler import ColGen
from formulations.cpsat import CpSat
from formulations.mig.scheduler import Mig
from formulations.pwl import Pwl
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from heuristics.baselines.ruin_recreate import RuinRecreate
from heuristics.gpulet.ideal import Ideal
from instances import GpuPool, Instance, Objective, PlanClass
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.suites.parvagpu import parvagpu
from tests.frozen import frozen

STEPS_S = (0.0, 1e-6, 0.3, 1e-3, 0.0, 0.05)
"""Seconds between successive readings of the clock, as on a machine that is busy now and then."""

HOUR_S = 3600.0
"""Time limit of a run, which it never reaches."""


def mix(size: int, objective: Objective, gpus: int | None = None) -> Instance:
    """Return an instance of iGniter's models on V100s."""
    family = "overload-mix" if objective is Objective.GOODPUT else "igniter-mix"
    return replace(generate(family, size, 3, objective, gpus=None), gpus=(GpuPool(gpu_type("v100"), gpus),))


# Scheduler, instance, and two work limits in the unit of the scheduler
CASES: dict[str, tuple[Scheduler, Instance, tuple[int, int]]] = {
    "local-search, cost": (LocalSearch(), mix(30, Objective.COST), (0, 20)),
    "local-search, capacity": (LocalSearch(), mix(8, Objective.CAPACITY, 6), (2, 10)),
    "ruin-recreate, cost": (RuinRecreate(), mix(60, Objective.COST), (0, 400)),
    "ruin-recreate, goodput": (RuinRecreate(), mix(12, Objective.GOODPUT, 3), (0, 400)),
    "ruin-recreate, capacity": (RuinRecreate(), mix(8, Objective.CAPACITY, 6), (2, 10)),
    "ruin-recreate, scale": (RuinRecreate(), mix(6, Objective.SCALE, 3), (0, 2000)),
    "random": (RandomFit(), mix(12, Objective.CAPACITY, 8), (1, 9)),
    "ideal": (Ideal(), mix(6, Objective.SCALE, 2), (0, 200)),
    "colgen, cost": (ColGen(), mix(40, Objective.COST), (3_000, 60_000)),
    "colgen, many workloads": (ColGen(), mix(72, Objective.COST), (20_000, 150_000)),
    "colgen, goodput": (ColGen(), mix(6, Objective.GOODPUT, 2), (1_000, 20_000)),
    "colgen, capacity": (ColGen(), mix(10, Objective.CAPACITY, 8), (3_000, 200_000)),
    "colgen, scale": (ColGen(), mix(6, Objective.SCALE, 3), (3_000, 60_000)),
    "colgen, split": (ColGen(PlanClass.SPLIT), mix(5, Objective.COST), (3_000, 20_000)),
    "colgen, turns": (ColGen(PlanClass.SPATIO_TEMPORAL), frozen("gpulet-traffic"), (10_000, 60_000)),
    "cpsat, cost": (CpSat(), mix(14, Objective.COST), (0, 1)),
    "cpsat, scale": (CpSat(), mix(6, Objective.SCALE, 3), (0, 1)),
    "pwl": (Pwl(pieces=1), mix(4, Objective.GOODPUT, 1), (0, 30)),
    "mig": (Mig(), parvagpu()[3], (0, 5)),
}

LONG = ("local-search, cost", "colgen, turns")
"""Cases whose comparisons take ten seconds or more."""

SOAK = pytest.mark.soak

DONE_AT_ONCE = ("random", "cpsat, cost", "mig")
"""Cases in which the smaller work limit is enough to finish."""


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Import and compile before the time limit of a run begins."""
    for scheduler in (LocalSearch(), RuinRecreate(), RandomFit(), Ideal(), ColGen(), CpSat(), Pwl(), Mig()):
        for objective in scheduler.objectives:
            scheduler.warm(objective)


def busy_clock() -> Iterator[float]:
    """Yield the readings of a clock that advances by ``STEPS_S``."""
    return accumulate(cycle(STEPS_S), initial=time.monotonic())


def solved(scheduler: Scheduler, instance: Instance, limit: int, threads: int = 1) -> Outcome:
    """Return the outcome of a scheduler within a work limit."""
    return scheduler.schedule(instance, Run(time.monotonic() + HOUR_S, 5, threads, work_limit=limit))


@pytest.mark.parametrize("name", [pytest.param(name, marks=SOAK if name in LONG else ()) for name in CASES])
def test_the_outcome_does_not_depend_on_the_clock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, instance, limits = CASES[name]
    for limit in limits:
        on_true_clock = solved(scheduler, instance, limit)
        times = busy_clock()
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda times=times: next(times))
            assert solved(scheduler, instance, limit) == on_true_clock


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SOAK if name in LONG else ()) for name in CASES if name not in DONE_AT_ONCE]
)
def test_a_smaller_work_limit_gives_another_outcome_and_less_work(name: str) -> None:
    scheduler, instance, (little, more) = CASES[name]
    first, second = (solved(scheduler, instance, limit) for limit in (little, more))
    assert (first.plan, first.bound, first.statistics) != (second.plan, second.bound, second.statistics)
    if "work" in first.statistics:
        assert first.statistics["work"] < second.statistics["work"]


def test_two_runs_with_two_threads_have_the_same_outcome() -> None:
    scheduler, instance, (_, limit) = CASES["cpsat, scale"]
    assert solved(scheduler, instance, limit, threads=2) == solved(scheduler, instance, limit, threads=2)


def test_the_time_limit_holds_beside_a_work_limit() -> None:
    for name in ("colgen, cost", "cpsat, cost", "local-search, cost", "ruin-recreate, cost"):
        scheduler, instance, _ = CASES[name]
        began = time.monotonic()
        scheduler.schedule(instance, Run(began + 0.2, work_limit=10**12))
        assert time.monotonic() - began < 2.0

"""Claims of ``minlp``: what SCIP says counts only where column generation confirms it, whatever SCIP says."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Bound, Run, Status
from bench.doctor.solvers import KNOWN_OPTIMA, KnownOptimum
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.compact.search import Search, SolverAnswer
from formulations.minlp import Minlp, confirmed
from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.generate import generate
from tests.formulations.exhaustive import draw_workloads, least_cost, most_goodput, small_batches

V100 = gpu_type("v100")
TINY = small_batches(replace(V100, name="tiny", share_units=8), 4)
RULES = [SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE]
POWER24 = next(known for known in KNOWN_OPTIMA if known.name == "power24")


def run_of(seconds: float) -> Run:
    return Run(deadline=time.monotonic() + seconds)


@pytest.fixture
def scip_says(monkeypatch: pytest.MonkeyPatch) -> Callable[[SolverAnswer], None]:
    """Replace SCIP by one that finds no plan and gives this answer."""

    def pretend(answer: SolverAnswer) -> None:
        monkeypatch.setattr("formulations.compact.scip.solve", lambda *_: answer)

    return pretend


NOTHING_BETTER = SolverAnswer(solved=False, finished=True, infeasible=True, bound=math.inf, nodes=0.0)


@pytest.mark.parametrize("known", KNOWN_OPTIMA, ids=lambda known: known.name)
def test_plans_that_rounding_used_to_cut_off_are_found(known: KnownOptimum) -> None:
    instance = known.instance()

    outcome = Minlp().schedule(instance, run_of(120.0))

    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value == pytest.approx(known.optimum, rel=1e-9)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.certified


def test_a_wrong_optimum_is_not_claimed(scip_says: Callable[[SolverAnswer], None]) -> None:
    instance = POWER24.instance()
    scip_says(NOTHING_BETTER)

    outcome = Minlp().schedule(instance, run_of(60.0))

    assert outcome.plan is not None
    assert judge(outcome.plan, instance).value == pytest.approx(9.18)
    assert outcome.status is Status.FEASIBLE
    assert outcome.bound == Bound(pytest.approx(9.18), False)
    assert outcome.reason == (
        "SCIP proves 9.18, but this is not confirmed: the certified bound of column generation is 6.12"
    )


def test_as_printed_makes_no_wrong_claim_either() -> None:
    for known in KNOWN_OPTIMA[:2]:
        instance = known.instance()
        outcome = Minlp(as_printed=True).schedule(instance, run_of(60.0))

        assert outcome.plan is not None
        right = judge(outcome.plan, instance).value == pytest.approx(known.optimum)
        assert outcome.status is (Status.OPTIMAL if right else Status.FEASIBLE)


@pytest.mark.parametrize(
    ("gpus", "status", "reason"),
    [
        (1, Status.INFEASIBLE, "too few GPUs"),
        (2, Status.UNKNOWN, "SCIP finds no plan, but this is not confirmed: column generation found a plan"),
    ],
)
def test_infeasible_is_claimed_where_it_is_confirmed(
    gpus: int, status: Status, reason: str, scip_says: Callable[[SolverAnswer], None]
) -> None:
    """First fit needs three GPUs, the optimum two."""
    scip_says(NOTHING_BETTER)

    outcome = Minlp().schedule(replace(POWER24.instance(), gpus=(GpuPool(V100, gpus),)), run_of(60.0))

    assert (outcome.status, outcome.plan) == (status, None)
    assert reason in outcome.reason


def test_a_wrong_most_throughput_is_not_claimed(scip_says: Callable[[SolverAnswer], None]) -> None:
    drawn = generate("igniter-mix", 3, 1, Objective.CAPACITY)
    instance = replace(drawn, gpus=(GpuPool(replace(V100, share_units=8), 1),))
    best = ColGen().schedule(instance, run_of(60.0))
    assert best.plan is not None
    scip_says(replace(NOTHING_BETTER, bound=-math.inf))

    outcome = Minlp().schedule(instance, run_of(60.0))

    assert outcome.plan is not None
    worse = judge(outcome.plan, instance).value < judge(best.plan, instance).value * (1 - 1e-9)  # type: ignore[operator]
    assert worse
    assert outcome.status is Status.FEASIBLE


def test_without_time_nothing_is_confirmed() -> None:
    instance = POWER24.instance()
    plan = ColGen().schedule(instance, run_of(60.0)).plan
    assert plan is not None

    for seconds, status in ((60.0, Status.OPTIMAL), (0.0, Status.FEASIBLE)):
        search = Search.of(instance, replace(run_of(seconds), start=plan))
        assert isinstance(search, Search)
        outcome = confirmed(search, None, infeasible=False)
        assert outcome.status is status
        assert outcome.reason == "" or seconds == 0.0
    few = Search.of(replace(instance, gpus=(GpuPool(V100, 2),)), run_of(0.0))
    assert isinstance(few, Search)
    assert confirmed(few, None, infeasible=True).status is Status.UNKNOWN


def draw(seed: int, objective: Objective) -> Instance:
    random = Random(seed)
    workloads = draw_workloads(random, TINY, random.randint(1, 3), (0.2, 0.9))
    pools = (GpuPool(TINY, random.randint(1, 2)),)
    return Instance("drawn", objective, random.choice(RULES), "igniter", pools, workloads)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([Objective.COST, Objective.GOODPUT]))
def test_claims_are_what_trying_everything_says(seed: int, objective: Objective) -> None:
    instance = draw(seed, objective)
    best = least_cost(instance) if objective is Objective.COST else most_goodput(instance)

    outcome = Minlp().schedule(instance, run_of(10.0))

    if outcome.plan is not None:
        verdict = judge(outcome.plan, instance)
        assert verdict.feasible
        if outcome.status is Status.OPTIMAL:
            assert verdict.value == pytest.approx(best, rel=1e-9)
    assert outcome.status is not Status.INFEASIBLE or best is None
    if best is None:
        assert outcome.plan is None
    if outcome.bound is not None and outcome.bound.certified and best is not None:
        beyond = outcome.bound.value - best if objective is Objective.COST else best - outcome.bound.value
        assert beyond <= 1e-9 * best

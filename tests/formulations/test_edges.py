"""Agreement of solvers, checker and judge on instances at the edge of feasibility."""

from random import Random

import pytest

from bench.api import Outcome, Run, Status
from bench.certificate.checking import check
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import Instance
from tests.bench.certificate.drawn import certified
from tests.formulations.edges import least_cost, on_the_edge


def agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compare solvers and checker with the judge's brute force; return whether a plan exists."""
    instance = on_the_edge(Random(seed))
    cost = least_cost(instance)
    for solver in (ColGen(), CpSat()):
        outcome = solver.schedule(instance, Run())
        if cost is None:
            assert outcome.status is Status.INFEASIBLE, (seed, solver.name, outcome)
            continue
        assert outcome.status is Status.OPTIMAL, (seed, solver.name, outcome)
        _check_claim(instance, outcome, cost, seed)
        if solver.name == "colgen":
            verdict = check(certified(instance, outcome, monkeypatch, False), "proof")
            assert verdict.proven, (seed, verdict.sentence)
    return cost is not None


def _check_claim(instance: Instance, outcome: Outcome, cost: float, seed: int) -> None:
    """Check that the plan is feasible and costs ``cost``, and that the bound is no higher."""
    assert outcome.plan is not None
    assert outcome.bound is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.violations == (), seed
    assert verdict.value == pytest.approx(cost, rel=1e-12), seed
    assert outcome.bound.value <= cost * (1.0 + 1e-9), seed


@pytest.mark.parametrize("part", range(4))
def test_solvers_and_checker_agree_with_the_judge_on_the_edge(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    has_plan = [agree(seed, monkeypatch) for seed in range(10 * part, 10 * part + 10)]
    assert any(has_plan)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_solvers_and_checker_agree_with_the_judge_on_many_instances(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    has_plan = [agree(seed, monkeypatch) for seed in range(1000 + 50 * part, 1050 + 50 * part)]
    assert sum(has_plan) > 10

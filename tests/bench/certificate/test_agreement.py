"""The checker of certificates against brute force: best patterns, best plans, proofs by duals and trees."""

from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pytest

from bench.api import Status
from bench.certificate.certificate import BoundClaim
from bench.certificate.checking import check
from bench.certificate.conditions import Conditions
from bench.certificate.dual import offers_of
from bench.certificate.exhaustive import exhaustive_bound
from bench.certificate.patterns import candidates_on
from bench.certificate.search import GpuSearch
from bench.certificate.statement import Statement
from instances import Objective
from tests.bench.certificate.drawn import certified, drawn, solved, tree_of
from tests.formulations import enumeration
from tests.soak import first


def statement_of(seed: int, objective: Objective | None = None) -> Statement:
    return Statement.of(drawn(seed, objective), BoundClaim(bound="1", plan_class="spatial"))


def proofs_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the exhaustive proof and the proof by duals of case ``seed`` with the optimum."""
    instance = drawn(seed)
    best = enumeration.optimum(instance)
    if instance.objective is Objective.SCALE:
        outcome = solved(instance)
        assert best is not None
        assert outcome.bound is not None
        assert outcome.bound.value == pytest.approx(best + enumeration.SCALE_STEP)
        for duals in (False, True):
            verdict = check(certified(instance, outcome, monkeypatch, duals), "proof")
            assert verdict.proven, verdict.sentence
        return
    proven = float(exhaustive_bound(statement_of(seed), lambda part: None))
    if best is None:
        assert abs(proven) == float("inf")
    else:
        assert proven == pytest.approx(best, rel=1e-8)
    outcome = solved(instance)
    verdict = check(certified(instance, outcome, monkeypatch, False), "proof")
    assert verdict.proven, verdict.sentence
    assert verdict.optimal == (outcome.status is not Status.UNKNOWN), verdict.sentence
    if outcome.proof and instance.objective is not Objective.CAPACITY:
        assert check(certified(instance, outcome, monkeypatch, True), "proof").proven


@pytest.mark.parametrize("seed", first(12, range(24)))  # twelve have every objective and rule
def test_proofs_agree_with_brute_force(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proofs_agree(seed, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(24, 224))
def test_proofs_agree_with_brute_force_on_200_instances(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proofs_agree(seed, monkeypatch)


@pytest.mark.parametrize("seed", first(8, range(12)))
def test_the_best_pattern_is_that_of_brute_force(seed: int) -> None:
    statement, random = statement_of(seed, Objective.COST), Random(seed)
    duals = [random.randint(0, 1000) for _ in statement.copies]
    gpu = enumeration.OneGpu(statement.instance, statement.views[0].gpu)
    class_of = {int(w): c for c, w in enumerate(statement.member)}
    keys = [(w.model, w.slo_ms, w.rate_rps) for w in statement.instance.workloads]
    dual_of = [duals[class_of[keys.index(key)]] for key in keys]
    workloads = range(len(keys))
    fitting_sets = [s for n in range(1, len(keys) + 1) for s in combinations(workloads, n) if gpu.fits(s)]
    best = max((sum(dual_of[w] for w in workload_set) for workload_set in fitting_sets), default=0)

    candidates = candidates_on(statement.views[0], offers_of(statement, duals, 1, range(len(duals))))
    search = GpuSearch(
        statement.views[0].tables, candidates, statement.copies, *Conditions.root(statement).matrices(len(duals))
    )

    assert search.above(0, best=True)[0] == best
    assert search.above(best) == (best, [])
    assert not best or search.above(best - 1)[0] == best


@pytest.mark.parametrize("seed", first(4, (0, 10, 2, 3, *(seed for seed in range(60) if seed not in (0, 10, 2, 3)))))
def test_proofs_by_trees_are_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = (Objective.COST, Objective.GOODPUT, Objective.CAPACITY)[seed % 3]
    instance, outcome = tree_of(seed, monkeypatch, objective)
    data = certified(instance, outcome, monkeypatch, True)

    verdict = check(data, "proof")

    assert verdict.proven, verdict.sentence
    optimum = float(
        exhaustive_bound(Statement.of(instance, BoundClaim(bound="1", plan_class="spatial")), lambda part: None)
    )
    if np.isinf(optimum):
        assert data["claim"]["bound"] == "none"
    elif objective is Objective.COST:
        assert Fraction(data["claim"]["bound"]) <= optimum + 1e-9
    else:
        assert Fraction(data["claim"]["bound"]) >= optimum * (1.0 - 1e-9)
    if objective is Objective.COST:
        assert verdict.optimal == (outcome.status is not Status.FEASIBLE)
    elif outcome.plan is not None:
        assert float(data["claim"]["bound"]) <= optimum * (1.0 + 2e-8)

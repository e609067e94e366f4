"""Bounds that follow from least shares alone: the checker accepts them, and no plan is better."""

import pytest

from bench.certificate.checking import check
from bench.certificate.least_shares import duals_of_least_shares
from bench.certificate.proving import certificate
from instances import Objective
from tests.bench.certificate.drawn import drawn
from tests.formulations import enumeration
from tests.soak import first


@pytest.mark.parametrize("seed", first(8, range(100)))  # eight have every objective
def test_the_bound_is_proven_and_holds_for_the_optimum(seed: int) -> None:
    instance = drawn(seed)
    best = enumeration.optimum(instance)
    nodes, scale = duals_of_least_shares(instance)

    verdict = check(certificate(instance, None, nodes, scale), "proof")

    assert verdict.proven, verdict.sentence
    if best is None:
        return
    bound = float(certificate(instance, None, nodes, scale)["claim"]["bound"])
    if instance.objective is Objective.COST:
        assert bound <= best * (1.0 + 1e-9)
    else:
        assert bound >= best * (1.0 - 1e-9)


def test_a_known_plan_shortens_the_search_for_an_impossible_multiple() -> None:
    instance = next(instance for seed in range(12) if (instance := drawn(seed)).objective is Objective.SCALE)
    best = enumeration.optimum(instance)
    assert best is not None

    from_nothing, from_plan = duals_of_least_shares(instance)[1], duals_of_least_shares(instance, best)[1]

    assert from_nothing is not None
    assert from_plan is not None
    assert from_plan == pytest.approx(from_nothing, rel=0.1)

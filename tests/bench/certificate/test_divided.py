"""Certificates for split plans against brute force: the best pattern of a GPU, the best plan, and false claims."""

import json
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from bench.certificate.certificate import LARGEST_WHOLE, BoundClaim
from bench.certificate.checking import check
from bench.certificate.divided import divided_on
from bench.certificate.divided_bound import bound_divided
from bench.certificate.divided_search import DividedSearch
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.statement import Statement
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.files import plan_to_json
from tests.bench.certificate.drawn import certified_split, solved_split
from tests.formulations import split_plans
from tests.formulations.split_plans import MOST_GPUS, TINY, tiny
from tests.soak import first

SPLIT = BoundClaim(bound="1", plan_class="split")
OBJECTIVES = (Objective.COST, Objective.GOODPUT)


def optimum(instance: Instance) -> float | None:
    if instance.objective is Objective.COST:
        return split_plans.least_cost(instance, MOST_GPUS)
    return split_plans.most_goodput(instance)


def proofs_agree(seed: int, objective: Objective) -> None:
    """Compare the proven bound with brute force, and refuse a bound that excludes the optimum."""
    instance = tiny(seed, objective)
    best, outcome = optimum(instance), solved_split(instance)
    data = certified_split(instance, outcome)

    verdict = check(data, "proof")

    assert verdict.proven, verdict.sentence
    bound, minimised = Fraction(data["claim"]["bound"]), instance.objective.minimised
    assert best is not None
    assert bound <= best * (1 + 1e-9) if minimised else bound >= best * (1 - 1e-9)
    for stretch in (1.05, 1.3, 2.0):  # duals that would prove more than is true
        false = json.loads(json.dumps(data))
        proof, excluded = false["proof"], best * (1.01 if minimised else 0.99)
        false["claim"]["bound"], false["plan"] = f"{excluded:.9f}", None
        proof["workloads"] = [int(p * (stretch if minimised else 1 / stretch)) for p in proof["workloads"]]
        if not minimised:
            proof["gpus"] = [int(g / stretch) for g in proof["gpus"]]
        assert not check(false, "proof").proven


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", first(3, range(9)))
def test_proofs_agree_with_brute_force(seed: int, objective: Objective) -> None:
    proofs_agree(seed, objective)


@pytest.mark.soak
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(9, 120))
def test_proofs_agree_with_brute_force_on_222_instances(seed: int, objective: Objective) -> None:
    proofs_agree(seed, objective)


def best_pattern_agrees(seed: int) -> None:
    """The search finds a pattern that is worth almost as much as the best of brute force, and none worth more."""
    instance, random = tiny(seed, OBJECTIVES[seed % 2]), Random(seed)
    statement = Statement.of(instance, SPLIT)
    classes = len(statement.copies)
    duals = [random.choice((0, 10**6, random.randint(1, 10**9))) for _ in range(classes)]
    keys = [(w.model, w.slo_ms, w.rate_rps) for w in instance.workloads]
    class_of = [[keys[int(m)] for m in statement.member].index(key) for key in keys]
    best = 0.0
    for _, cover in split_plans.contents(instance, TINY):
        served = np.zeros(classes)
        np.add.at(served, class_of, cover)
        best = max(best, float(np.minimum(served, statement.copies) @ duals))
    slots = divided_on(statement.views[0], dict(enumerate(duals)), statement.member, statement.copies)
    search = DividedSearch(statement.views[0].tables, slots)

    if best > 0.0:
        with suppress(GivenUpError):  # not proven, which is no false claim
            assert search.above(int(best * (1 - 1e-9)) - 1)
    # Brute force tries some rates only under assembly, and assigns slots to single workloads of a class.
    if instance.slo_rule is not SloRule.ASSEMBLY and statement.copies.max() == 1:
        assert search.above(int(best * (1 + 1e-5)) + 1) == []


@pytest.mark.parametrize("seed", first(5, range(12)))
def test_the_best_pattern_is_that_of_brute_force_with_all_boxes_listed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search lists the patterns of every box, and tries no choice of the relaxation first."""
    monkeypatch.setattr("bench.certificate.divided_search.LISTED_GROWTH", np.inf)
    monkeypatch.setattr("bench.certificate.divided_search.bound_divided", lambda *given: (bound_divided(*given)[0], 0))
    best_pattern_agrees(seed)


@pytest.mark.parametrize("seed", first(4, range(24)))
def test_the_best_pattern_is_that_of_brute_force(seed: int) -> None:
    best_pattern_agrees(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(24, 224))
def test_the_best_pattern_is_that_of_brute_force_on_200_instances(seed: int) -> None:
    best_pattern_agrees(seed)


def test_slots_of_one_workload_count_at_most_as_the_workload() -> None:
    """A workload that needs two fifths of a GPU is worth no more with a whole GPU."""
    instance = tiny(0, Objective.COST)
    small = replace(instance, workloads=(replace(instance.workloads[0], rate_rps=instance.workloads[0].rate_rps / 4),))
    view = Statement.of(small, SPLIT).views[0]

    one_copy, two_copies = (
        DividedSearch(view.tables, divided_on(view, {0: 10**6}, np.array([0]), np.array([copies]))) for copies in (1, 2)
    )

    assert one_copy.above(10**6 - 1) == [0]
    assert one_copy.above(10**6) == []
    assert len(two_copies.above(10**6)) > 1


def test_a_dual_beyond_the_largest_integer_is_given_up() -> None:
    view = Statement.of(tiny(0, Objective.COST), SPLIT).views[0]
    with pytest.raises(GivenUpError):
        DividedSearch(view.tables, divided_on(view, {0: LARGEST_WHOLE + 1}, np.array([0]), np.array([1])))


def test_the_plan_may_have_several_slots_of_a_workload_on_a_gpu() -> None:
    """A plan with two slots of one workload on a GPU is split; the sum of their rates counts."""
    v100 = gpu_type("v100")
    instance = Instance(
        "asked", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(v100),), (Workload("w", "alexnet", 30.0, 100.0),)
    )
    data = certified_split(instance, solved_split(instance))
    halves = Plan("asked", (spatial_gpu("v100", [("w", 20, 2, 50.0), ("w", 20, 2, 50.0)]),))
    short = Plan("asked", (spatial_gpu("v100", [("w", 20, 2, 50.0), ("w", 20, 2, 49.9)]),))

    def with_plan(plan: Plan) -> str:
        return check(json.loads(json.dumps({**data, "plan": plan_to_json(plan)})), "proof").sentence

    assert with_plan(halves) == "proven: 1 GPU, no split plan has fewer"
    assert "less than its rate" in with_plan(short)


def test_parts_in_steps_are_needed_under_attainment_only() -> None:
    attained = replace(tiny(0, Objective.COST), slo_rule=SloRule.ATTAINMENT)
    with pytest.raises(NotProvenError, match="parts in steps"):
        Statement.of(attained, SPLIT)
    with pytest.raises(NotProvenError, match="parts have any size"):
        Statement.of(tiny(0, Objective.COST), BoundClaim(bound="1", plan_class="split", parts=20))

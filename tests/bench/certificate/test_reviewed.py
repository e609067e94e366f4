"""Certificates that a careless checker would accept: each is refused, or its sentence is true."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from bench.certificate.certificate import BoundClaim
from bench.certificate.checking import ProofVerdict, check
from bench.certificate.exhaustive import exhaustive_bound
from bench.certificate.failures import NotProvenError
from bench.certificate.proving import certificate
from bench.certificate.statement import Statement
from bench.judging.judge import judge
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.files import instance_to_json, plan_to_json

V100 = gpu_type("v100")


def asking(objective: Objective, *workloads: Workload, count: int | None = None, **fields: Any) -> Instance:
    terms = {"slo_rule": SloRule.HALF_SLO, "performance_model": "igniter"} | fields
    return Instance("asked", objective, gpus=(GpuPool(V100, count),), workloads=workloads, **terms)


def checked(instance: Instance, claim: Mapping[str, Any], plan: Plan | None = None) -> ProofVerdict:
    """Return the verdict on a claim with an exhaustive proof."""
    data = {
        "version": 1,
        "instance": instance_to_json(instance, frozen=True),
        "plan": None if plan is None else plan_to_json(plan),
        "claim": {"plan_class": "spatial"} | claim,
        "proof": {"kind": "exhaustive"},
    }
    return check(json.loads(json.dumps(data)), "proof")


@pytest.mark.parametrize("rate", [20000.0 / 3.0, 6666.666666666667, 1000.0 / 7.0, 2000.0 / 3.0])
def test_a_step_of_a_rate_is_not_lost_by_rounding(rate: float) -> None:
    instance = asking(Objective.GOODPUT, Workload("w", "alexnet", 30.0, rate), count=1)
    bound = exhaustive_bound(Statement.of(instance, BoundClaim(bound="1", plan_class="spatial")), lambda part: None)
    claimed = certificate(instance, None, [])["claim"]["bound"]

    steps = float(claimed) / (rate / 20)
    assert float(bound) >= float(claimed) * (1.0 - 1e-9)
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert not checked(instance, {"bound": f"{rate / 20 * (round(steps) - 1):.6f}"}).proven


def test_a_slot_planned_for_more_than_the_rate_raises_the_scale() -> None:
    asked = Workload("w", "alexnet", 30.0, 500.0)
    instance = asking(Objective.SCALE, asked, count=1, slo_rule=SloRule.ASSEMBLY)
    best = 0.0
    for batch, rate in product(range(1, 33), (25.0 * step for step in range(20, 400))):
        plan = Plan("asked", (spatial_gpu("v100", [("w", 40, batch, rate)]),))
        best = max(best, rate / 500.0 if judge(plan, instance).feasible else 0.0)
    assert best > 1.0
    assert not checked(instance, {"bound": f"{best:.6f}"}).proven
    assert checked(instance, {"bound": f"{best + 0.1:.6f}"}).proven
    assert not checked(asking(Objective.SCALE, replace(asked, rate_rps=1e5), count=1), {"bound": "none"}).proven


def test_a_plan_that_beats_the_claim_contradicts_it() -> None:
    instance = asking(Objective.COST, Workload("w", "alexnet", 30.0, 100.0))
    plan = Plan("asked", (spatial_gpu("v100", [("w", 40, 4, 100.0)]),))
    assert checked(instance, {"bound": "3.06"}, plan).sentence == "proven: 1 GPU, no spatial plan has fewer"
    assert not checked(instance, {"bound": "6.12"}, plan).proven
    assert not checked(instance, {"bound": "3.06"}, replace(plan, instance="another")).proven


def test_plans_with_more_slots_or_gpulets_than_the_claim_covers_are_refused() -> None:
    instance = asking(Objective.COST, Workload("w", "alexnet", 30.0, 100.0))
    twice = Plan("asked", (spatial_gpu("v100", [("w", 20, 2, 50.0), ("w", 20, 2, 50.0)]),))
    assert "does not cover" in checked(instance, {"bound": "3.06"}, twice).sentence
    many = tuple(Workload(f"w{n}", "alexnet", 100.0, 5.0) for n in range(3))
    pairs = asking(Objective.COST, *many, performance_model="gpulet")
    three = Plan("asked", (spatial_gpu("v100", [(w.id, 12, 1, 5.0) for w in many]),))
    assert "the claim covers 2" in checked(pairs, {"bound": "6.12"}, three).sentence
    assert "at most two gpulets on a GPU" in checked(pairs, {"bound": "6.12"}).sentence


def test_parts_are_refused_for_spatial_plans() -> None:
    instance = asking(Objective.COST, Workload("w", "alexnet", 30.0, 100.0), slo_rule=SloRule.ATTAINMENT)
    with pytest.raises(NotProvenError, match="split plans"):
        Statement.of(instance, BoundClaim(bound="1", plan_class="spatial", parts=20))

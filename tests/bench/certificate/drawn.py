"""Random tiny instances of all objectives and SLO rules that certificates support, their outcomes and certificates."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest

from bench.api import Outcome, Run
from bench.certificate.proving import certificate
from formulations.colgen import ColGen, integer_passes
from formulations.colgen.scheduler import SearchedClass
from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from tests.formulations import exhaustive

V100 = gpu_type("v100")
COARSE = exhaustive.small_batches(replace(V100, name="coarse", share_units=8), 6)
OBJECTIVES = (Objective.COST, Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE)
RULES = (SloRule.HALF_SLO, SloRule.DUTY_CYCLE, SloRule.ASSEMBLY)


def drawn(seed: int, objective: Objective | None = None, most: int = 4) -> Instance:
    """Return a random instance of two to ``most`` workloads on one or two small GPU types."""
    random = Random(seed)
    objective = objective or OBJECTIVES[seed % len(OBJECTIVES)]
    rule = RULES[seed // len(OBJECTIVES) % len(RULES)]
    if objective is Objective.SCALE and rule is SloRule.ASSEMBLY:
        rule = SloRule.HALF_SLO  # under assembly, a higher rate may fit where a lower one does not
    bounded = objective is not Objective.COST
    pools = [GpuPool(COARSE, random.choice((1, 2)) if bounded else random.choice((None, None, 3)))]
    if random.random() < 0.4:
        slow = exhaustive.slower(COARSE, "slow", random.choice((1.2, 1.5)), round(random.uniform(1.5, 2.9), 2))
        pools.append(GpuPool(slow, 1 if bounded else random.choice((None, 1, 2))))
    count = random.randint(2, 3 if objective is Objective.CAPACITY else most)
    workloads = exhaustive.draw_workloads(random, COARSE, count, (0.15, 0.7))
    if random.random() < 0.3:
        workloads = (*workloads[:-1], replace(workloads[0], id=workloads[-1].id))  # two are identical
    return Instance(f"drawn-{seed}", objective, rule, "igniter", tuple(pools), workloads)


def solved(instance: Instance) -> Outcome:
    return ColGen().schedule(instance, Run(deadline=time.monotonic() + 300.0, work_limit=3_000_000))


def nodes_of(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the nodes of the proof as a row stores them."""
    return [{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(n).items()} for n in outcome.proof]


def certified(instance: Instance, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, duals: bool) -> Mapping[str, Any]:
    """Return the certificate of an outcome; with ``duals``, never an exhaustive proof."""
    with monkeypatch.context() as patch:
        if duals:
            patch.setattr("bench.certificate.proving.MOST_WORKLOADS", 0)
        bound = None if outcome.bound is None else outcome.bound.value
        made = certificate(instance, outcome.plan, nodes_of(outcome), bound=bound)
    read: Mapping[str, Any] = json.loads(json.dumps(made))
    return read


def solved_split(instance: Instance) -> Outcome:
    return ColGen(plan_class=SearchedClass.SPLIT).schedule(instance, Run(work_limit=200_000))


def certified_split(instance: Instance, outcome: Outcome) -> dict[str, Any]:
    bound = None if outcome.bound is None else outcome.bound.value
    made = certificate(instance, outcome.plan, nodes_of(outcome), bound, {"plan_class": "split"})
    read: dict[str, Any] = json.loads(json.dumps(made))
    return read


def tree_of(
    seed: int, monkeypatch: pytest.MonkeyPatch, objective: Objective = Objective.COST
) -> tuple[Instance, Outcome]:
    """Return an instance on two GPU types, and its outcome when only branching closes the gap."""
    random = Random(seed)
    slow = exhaustive.slower(COARSE, "slow", random.choice((1.2, 1.5)), round(random.uniform(1.5, 2.9), 2))
    workloads = exhaustive.draw_workloads(random, COARSE, 6, (0.2, 0.45))
    pools = (GpuPool(COARSE, random.choice((None, 2))), GpuPool(slow, random.choice((None, 2))))
    if objective is not Objective.COST:
        pools = (GpuPool(COARSE, 1 if objective is Objective.GOODPUT else 2), GpuPool(slow, 1))
    instance = Instance(f"tree-{seed}", objective, SloRule.HALF_SLO, "igniter", pools, workloads)
    with monkeypatch.context() as patch:
        patch.setattr(integer_passes, "complete_below", lambda generation, worst: False)
        return instance, solved(instance)

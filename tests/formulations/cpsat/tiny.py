"""Tiny instances for ``cpsat``, the reports of a run, and patches that leave more of the work to the solver."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from bench.api import Bound, Outcome, Run
from bench.judging.judge import judge
from formulations.cpsat import CpSat, assignment, integers, scale, search
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from tests.formulations import exhaustive
from tests.instances.reference import TOY

V100 = gpu_type("v100")
COARSE = exhaustive.small_batches(replace(V100, name="coarse", share_units=8), 4)
GAPS = exhaustive.small_batches(replace(V100, name="gaps", allowed_shares=(2, 5, 8, 16, 20, 32, 40)), 4)
TIGHT = replace(exhaustive.small_batches(TOY, 4), name="tight", memory_mib=1900.0)
GRIDS = (COARSE, GAPS, TIGHT)


def instance_of(
    workloads: tuple[Workload, ...],
    *pools: GpuPool,
    objective: Objective = Objective.COST,
    slo_rule: SloRule = SloRule.HALF_SLO,
    latency_buffer: float = 1.0,
) -> Instance:
    return Instance("drawn", objective, slo_rule, "igniter", pools, workloads, latency_buffer=latency_buffer)


def draw(seed: int, objective: Objective) -> Instance:
    """Return a tiny instance on one or two GPU types; the seed chooses permitted shares, pool, rule and buffer."""
    random = Random(seed)
    gpu = random.choice(GRIDS)
    count = random.randint(2, 5 if objective is Objective.COST else 3)
    workloads = exhaustive.draw_workloads(random, gpu, count, (0.1, random.choice((0.4, 0.8))))
    bounded = objective is not Objective.COST
    pools = [GpuPool(gpu, random.choice((1, 2) if bounded else (None, 2, 3)))]
    if random.random() < 0.5:
        price = round(gpu.price_per_hour * random.choice((0.37, 0.5, 0.8)), 2)
        slow = exhaustive.slower(gpu, "slow", random.choice((1.2, 1.6)), price)
        pools.append(GpuPool(slow, 1 if bounded else random.choice((1, 2, None))))
    rules = [SloRule.HALF_SLO, SloRule.DUTY_CYCLE]
    if objective is not Objective.SCALE:
        rules.append(SloRule.ASSEMBLY)
    return instance_of(
        workloads,
        *pools,
        objective=objective,
        slo_rule=random.choice(rules),
        latency_buffer=random.choice((1.0, 1.1)),
    )


class Reports:
    """Listener that keeps every plan and bound that a run reports."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.bounds: list[Bound] = []

    def __call__(self, plan: Plan | None, bound: Bound | None) -> None:
        self.plans += [plan] if plan is not None else []
        self.bounds += [bound] if bound is not None else []


def solve(instance: Instance, reports: Reports | None = None, **terms: Any) -> Outcome:
    """Run ``cpsat``; ``terms`` are fields of ``Run``."""
    return CpSat().schedule(instance, Run(listener=reports or Reports(), **terms))


def value(plan: Plan | None, instance: Instance) -> float:
    """Return the judge's value of a plan that must be feasible."""
    assert plan is not None
    verdict = judge(plan, instance)
    assert verdict.violations == ()
    assert verdict.value is not None
    return verdict.value


def check_reports(reports: Reports, instance: Instance, optimum: float) -> None:
    """Check that plans are feasible and get better, bounds get tighter, and no bound excludes the optimum."""
    sense = -1.0 if instance.objective.minimised else 1.0
    values = [sense * value(plan, instance) for plan in reports.plans]
    bounds = [sense * bound.value for bound in reports.bounds]
    assert values == sorted(values)
    assert bounds == sorted(bounds, reverse=True)
    assert min(bounds, default=np.inf) >= sense * optimum - 1e-9 * abs(optimum)


def without_shortcuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave everything to the solver: first fit finds no plan, and the bound by volume is 0."""
    monkeypatch.setattr(search, "first_fit", lambda *_: [])
    monkeypatch.setattr(scale, "first_fit", lambda *_: [])
    monkeypatch.setattr(search, "_volume_bound", lambda *_: 0)


def round_coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round the conditions so coarsely that many sets of workloads fit in integers only."""
    monkeypatch.setattr(integers, "CONDITION_RESOLUTION", 200)
    monkeypatch.setattr(integers, "DEMAND_RESOLUTION", 1)
    monkeypatch.setattr(assignment, "SUM_RESOLUTION", np.ones(4, dtype=np.int64))

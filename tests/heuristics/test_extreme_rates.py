"""Rates at both ends of the permitted range, under every rule: a feasible plan, or a reason in one line."""

import math
import warnings
from dataclasses import replace

import pytest

from bench.api import Outcome, Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.ruin_recreate import RuinRecreate
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.gpulet.sbp import SquishyBinPacking
from heuristics.igniter.igniter import IGniter
from instances import GpuPool, InputError, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.files import instance_from_json, instance_to_json
from instances.workload import LEAST_RATE_RPS, MOST_RATE_RPS
from tests.soak import first

V100 = gpu_type("v100")
SCHEDULERS: tuple[Scheduler, ...] = (
    IGniter(),
    LocalSearch(rounds=2),
    RuinRecreate(rounds=2),
    ElasticPartitioning(),
    SquishyBinPacking(),
    ColGen(),
    CpSat(),
)


def with_one_ordinary_rate(rate_rps: float, rule: SloRule, objective: Objective = Objective.COST) -> Instance:
    workloads = (Workload("a", "alexnet", 50.0, rate_rps), Workload("b", "resnet50", 80.0, 20.0))
    count = None if objective is Objective.COST else 2
    return Instance("extreme", objective, rule, "igniter", (GpuPool(V100, count),), workloads)


def solve(scheduler: Scheduler, instance: Instance) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = scheduler.schedule(instance, Run(work_limit=100_000))
        assert "\n" not in outcome.reason
        assert outcome.plan is not None or outcome.reason
        if outcome.plan is not None:
            assert judge(outcome.plan, instance).feasible
    return outcome


@pytest.mark.parametrize("rule", list(SloRule))
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda s: s.name)
def test_the_least_rate_is_served(scheduler: Scheduler, rule: SloRule) -> None:
    instance = with_one_ordinary_rate(LEAST_RATE_RPS, rule)

    outcome = solve(scheduler, instance)

    if instance.takes_turns or not isinstance(scheduler, ElasticPartitioning | SquishyBinPacking):
        assert outcome.plan is not None
        assert judge(outcome.plan, instance).gpus_used == 1


@pytest.mark.parametrize("rule", list(SloRule))
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda s: s.name)
def test_the_largest_rate_is_too_large_and_named(scheduler: Scheduler, rule: SloRule) -> None:
    instance = with_one_ordinary_rate(MOST_RATE_RPS, rule)

    outcome = solve(scheduler, instance)

    assert outcome.plan is None
    if isinstance(scheduler, ColGen | CpSat):  # no feasible plan without splitting workloads
        assert outcome.status is Status.INFEASIBLE
        assert "1e+200 req/s" in outcome.reason
    else:
        assert outcome.status is Status.UNKNOWN
        assert "1e+200 req/s" in outcome.reason or "duty cycles give no guarantee" in outcome.reason


@pytest.mark.parametrize("scheduler", [ColGen(), CpSat()], ids=lambda s: s.name)
@pytest.mark.parametrize("rates", [(1e200, 20.0), (1e200, 1e-3), (1e30,)])
def test_a_scale_far_below_the_grid_is_feasible(scheduler: Scheduler, rates: tuple[float, ...]) -> None:
    workloads = tuple(Workload(f"w{n}", "alexnet", 50.0, rate) for n, rate in enumerate(rates))
    instance = replace(with_one_ordinary_rate(1.0, SloRule.HALF_SLO, Objective.SCALE), workloads=workloads)

    outcome = solve(scheduler, instance)

    assert outcome.status is Status.FEASIBLE
    assert outcome.plan is not None
    # One V100 serves at most 9,167 req/s of the model; the scale is within about a factor of two.
    assert 2_000.0 < judge(outcome.plan, instance).value * max(rates) < 20_000.0
    assert "the grid of scales starts at 0.005" in outcome.reason


@pytest.mark.parametrize("rate_rps", [5e-324, math.nextafter(LEAST_RATE_RPS, 0.0), 1.7e308])
def test_rates_beyond_the_range_are_refused(rate_rps: float) -> None:
    data = instance_to_json(with_one_ordinary_rate(20.0, SloRule.HALF_SLO))
    data["workloads"][0]["rate_rps"] = rate_rps
    with pytest.raises(InputError, match=r"workloads\[0\]\.rate_rps"):
        instance_from_json(data, "mine.json")


@pytest.mark.parametrize("scheduler", first(1, [CpSat(), ColGen()]), ids=lambda s: s.name)
def test_the_scale_of_the_least_rates_has_no_assumed_limit(scheduler: Scheduler) -> None:
    workloads = tuple(Workload(f"w{n}", "alexnet", 50.0, LEAST_RATE_RPS) for n in range(2))
    instance = replace(with_one_ordinary_rate(1.0, SloRule.HALF_SLO, Objective.SCALE), workloads=workloads)

    outcome = solve(scheduler, instance)

    assert outcome.plan is not None
    if isinstance(scheduler, CpSat):
        assert outcome.status is Status.OPTIMAL
    if outcome.status is Status.OPTIMAL:
        assert judge(outcome.plan, instance).value * LEAST_RATE_RPS == pytest.approx(9_167.12, rel=1e-3)
    assert outcome.bound is None or outcome.bound.value * LEAST_RATE_RPS > 9_167.0

"""Heuristics under the SLO rule ``attainment``."""

from dataclasses import replace

import pytest

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from heuristics.baselines.ruin_recreate import RuinRecreate
from heuristics.gpulet.best_fit import GreedyBestFit, GuidedSelfTuning
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.gpulet.ideal import Ideal
from heuristics.gpulet.sbp import SquishyBinPacking
from heuristics.igniter.gpu_lets_plus import GpuLetsPlus
from heuristics.igniter.igniter import FfdPlusPlus, IGniter
from heuristics.mediator.mediator import BinPacking, Horus, Mediator
from instances import Instance, Objective, SloRule, Workload
from instances.generate import generate

FITTING = [
    IGniter(),
    FfdPlusPlus(),
    LocalSearch(rounds=50),
    RuinRecreate(rounds=50),
    RandomFit(),
    Mediator(),
    Horus(),
    BinPacking(),
]
TURNS = [ElasticPartitioning(), SquishyBinPacking(), Ideal(), GreedyBestFit(), GuidedSelfTuning()]


def under_attainment(problem: Instance) -> Instance:
    return replace(problem, slo_rule=SloRule.ATTAINMENT)


MIX = under_attainment(generate("igniter-mix", 8, 0))
# Half the SLO and the mean rate allow this workload on one V100; 99 % of random arrivals do not.
TOO_MUCH = Workload("large", "ssd", 27.0, 184.0)


@pytest.mark.parametrize("scheduler", FITTING, ids=lambda s: s.name)
@pytest.mark.parametrize("objective", [Objective.COST, Objective.CAPACITY, Objective.GOODPUT])
def test_plans_are_feasible(scheduler: Scheduler, objective: Objective) -> None:
    problem = MIX
    if objective is not Objective.COST:
        problem = replace(MIX, objective=objective, gpus=(replace(MIX.gpus[0], count=6),))

    plan = scheduler.schedule(problem, Run()).plan

    assert plan is not None
    assert judge(plan, problem).violations == ()


@pytest.mark.parametrize("scheduler", FITTING, ids=lambda s: s.name)
def test_a_workload_that_no_gpu_serves_whole_is_split(scheduler: Scheduler) -> None:
    problem = replace(MIX, workloads=(*MIX.workloads, TOO_MUCH))

    plan = scheduler.schedule(problem, Run()).plan

    assert plan is not None
    assert judge(plan, problem).violations == ()
    assert sum(slot.workload == "large" for _, _, slot in plan.slots()) == 2
    assert IGniter().schedule(replace(problem, slo_rule=SloRule.HALF_SLO), Run()).plan is not None


def test_gpu_lets_plus_serves_parts_within_their_budgets() -> None:
    """Its newcomers are within their budgets; residents may not be, as under every rule."""
    outcome = GpuLetsPlus().schedule(MIX, Run())

    assert outcome.plan is not None
    assert {violation.kind for violation in judge(outcome.plan, MIX).violations} <= {"latency"}


@pytest.mark.parametrize("scheduler", TURNS, ids=lambda s: s.name)
@pytest.mark.parametrize("rule", [SloRule.ATTAINMENT, SloRule.P99])
def test_duty_cycles_decline_in_one_line(scheduler: Scheduler, rule: SloRule) -> None:
    outcome = scheduler.schedule(replace(MIX, slo_rule=rule), Run())

    assert (outcome.status, outcome.plan) == (Status.UNKNOWN, None)
    assert outcome.reason.startswith(f"duty cycles give no guarantee under {rule}")
    assert "\n" not in outcome.reason


def test_a_more_demanding_rule_needs_more() -> None:
    mix = generate("heavy-mix", 12, 1)
    volumes = []
    for rule in (
        replace(mix, slo_rule=SloRule.ATTAINMENT, attainment=0.9),
        under_attainment(mix),
        replace(mix, slo_rule=SloRule.ATTAINMENT, attainment=0.999),
    ):
        plan = LocalSearch(rounds=0).schedule(rule, Run()).plan
        assert plan is not None
        volumes.append(sum(gpu.share_units for gpu in plan.gpus))

    assert volumes[0] < volumes[1] < volumes[2]

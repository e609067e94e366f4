"""Decisions of the online policies after a period, against decisions made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.online.control import POLICIES
from bench.online.observation import Observation
from bench.online.policy import PeriodDecision, Reschedule
from bench.online.share_policies import Reactive, Shadow
from instances import Gpulet, GpuPool, InputError, Instance, Objective, PlacedGpu, Plan, SloRule, Workload, spatial_gpu
from instances.suites import SUITES
from tests.instances.reference import TOY

WORKLOADS = tuple(Workload(name, "small", 20.0, 100.0) for name in "abc")
INSTANCE = Instance("few", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(TOY, None),), WORKLOADS)


def plan_of(*gpus: Sequence[tuple[str, int, int]]) -> Plan:
    return Plan("few", tuple(spatial_gpu("toy", [(*resident, 100.0) for resident in gpu]) for gpu in gpus))


def observed(
    *, served: Sequence[int] = (1000, 1000, 1000), batch_ms: Sequence[float] = (9.5,) * 3, **counts: Any
) -> Observation:
    """Return an observation of 10 s; by default, no request is late, and batches take 9.5 ms of the target of 10 ms."""
    zeros = (0, 0, 0)
    dropped = np.array(counts.get("dropped", zeros))
    served_counts = np.array(served)
    return Observation(
        10.0,
        served_counts + dropped,
        served_counts,
        np.array(counts.get("late", zeros)),
        dropped,
        served_counts * np.array(batch_ms, dtype=float),
    )


class RecordingPlanner:
    """Stand-in for a planner that records the rates and plans that it is called with."""

    def __init__(self, answer: Plan | None) -> None:
        self.answer = answer
        self.asked: list[list[float]] = []
        self.starts: list[Plan | None] = []
        self.without_headroom = False

    def plan(self, rates_rps: np.ndarray, start: Plan | None = None) -> Plan | None:
        self.asked.append(rates_rps.tolist())
        self.starts.append(start)
        return self.answer


PLAN = plan_of([("a", 4, 2), ("b", 5, 2)], [("c", 5, 2)])


def test_every_policy_returns_a_decision() -> None:
    for make in POLICIES.values():
        policy = make(INSTANCE, RecordingPlanner(PLAN), 0.5)  # type: ignore[arg-type]
        assert policy.period_s > 0.0
        assert isinstance(policy.decide(PLAN, observed()), PeriodDecision)


# Rescheduling


def test_rates_are_estimated_by_an_exponentially_weighted_average() -> None:
    planner = RecordingPlanner(PLAN)
    policy = Reschedule(planner, INSTANCE, 0.25)  # type: ignore[arg-type]

    for _ in range(2):
        assert policy.decide(PLAN, observed(served=(2000, 1000, 0))) == PeriodDecision(PLAN, without_headroom=False)

    # weight 0.25, from 100 req/s towards 200, 100 and 0
    assert planner.asked == [[125.0, 100.0, 75.0], [143.75, 100.0, 56.25]]
    assert planner.starts == [PLAN, PLAN]


def test_a_workload_without_requests_is_planned_at_a_small_rate() -> None:
    planner = RecordingPlanner(PLAN)

    Reschedule(planner, INSTANCE, 1.0).decide(PLAN, observed(served=(0, 1000, 0)))  # type: ignore[arg-type]

    assert planner.asked == [[0.1, 100.0, 0.1]]


def test_without_a_plan_the_rates_are_unschedulable() -> None:
    policy = Reschedule(RecordingPlanner(None), INSTANCE, 1.0)  # type: ignore[arg-type]

    assert policy.decide(PLAN, observed()) == PeriodDecision(None, unschedulable=True)


@pytest.mark.parametrize("weight", [0.0, -0.5, 1.5, float("nan")])
def test_weights_out_of_range_are_refused(weight: float) -> None:
    with pytest.raises(InputError, match="weight"):
        Reschedule(RecordingPlanner(PLAN), INSTANCE, weight)  # type: ignore[arg-type]


# Shadow processes


def test_a_late_workload_gets_a_tenth_of_the_gpu_more_once() -> None:
    policy = Shadow(INSTANCE)
    assert policy.decide(PLAN, observed(late=(10, 0, 0))) == PeriodDecision()  # 1 % late is permitted

    first = policy.decide(PLAN, observed(late=(11, 0, 0))).plan
    assert first == plan_of([("a", 5, 2), ("b", 5, 2)], [("c", 5, 2)])

    second = policy.decide(first, observed(late=(500, 0, 0), dropped=(0, 0, 11))).plan
    assert second == plan_of([("a", 5, 2), ("b", 5, 2)], [("c", 6, 2)])
    assert policy.decide(second, observed(dropped=(500, 500, 500))) == PeriodDecision()  # b's GPU is full


def test_only_one_workload_of_a_gpu_moves_per_period() -> None:
    policy = Shadow(INSTANCE)
    plan = plan_of([("a", 4, 2), ("b", 4, 2)])

    first = policy.decide(plan, observed(late=(500, 500, 0))).plan
    assert first == plan_of([("a", 5, 2), ("b", 4, 2)])
    assert policy.decide(first, observed(late=(500, 500, 0))).plan == plan_of([("a", 5, 2), ("b", 5, 2)])


def test_shadow_processes_stand_by_until_they_are_used() -> None:
    policy = Shadow(INSTANCE)
    assert policy.standby(PLAN) == plan_of([("a", 5, 2), ("b", 6, 2)], [("c", 6, 2)])

    moved = policy.decide(PLAN, observed(late=(500, 0, 0))).plan
    assert moved is not None
    assert policy.standby(moved) == plan_of([("b", 5, 2)], [("c", 6, 2)])


# Reactive tuning


@pytest.mark.parametrize(
    ("batch_ms", "batch"),
    [
        pytest.param(9.5, 2, id="within the band"),
        pytest.param(25.0, 1, id="too slow: 2 x 10 / 25"),
        pytest.param(7.0, 3, id="too fast: 2 x 10 / 7, rounded up"),
        pytest.param(1.0, 8, id="the largest batch"),
    ],
)
def test_the_batch_is_tuned_first(batch_ms: float, batch: int) -> None:
    decision = Reactive(INSTANCE).decide(PLAN, observed(batch_ms=(batch_ms, 9.5, 9.5)))

    expected = plan_of([("a", 4, batch), ("b", 5, 2)], [("c", 5, 2)])
    assert decision == PeriodDecision(None if expected == PLAN else expected)


def test_shares_are_adjusted_after_the_batches() -> None:
    """a serves 2 requests in 9.5 ms less hidden loading: 223.7 req/s, so it needs 100 / 223.7 of its 40 %: 17.9 %."""
    policy = Reactive(INSTANCE)
    assert policy.decide(PLAN, observed()) == PeriodDecision()

    assert policy.decide(PLAN, observed()).plan == plan_of([("a", 1, 2), ("b", 2, 2)], [("c", 2, 2)])


def test_the_shares_may_add_up_to_more_than_the_gpu() -> None:
    full = plan_of([("a", 5, 2), ("b", 5, 2)], [("c", 5, 2)])
    policy = Reactive(INSTANCE)
    assert policy.decide(full, observed()) == PeriodDecision()

    grown = policy.decide(full, observed(batch_ms=(12.0, 12.0, 9.5))).plan

    assert grown is not None
    assert grown.gpus[0].share_units > 10


def test_the_period_after_a_change_decides_nothing() -> None:
    policy = Reactive(INSTANCE)
    changed = policy.decide(PLAN, observed(batch_ms=(7.0, 9.5, 9.5))).plan
    assert changed is not None

    assert policy.decide(changed, observed(batch_ms=(7.0, 9.5, 9.5))) == PeriodDecision()
    assert policy.decide(changed, observed(batch_ms=(7.0, 9.5, 9.5))).plan is not None


def test_batches_that_never_settle_are_tuned_five_times() -> None:
    policy, plan = Reactive(INSTANCE), PLAN
    batches = []
    for round_number in range(6):
        batch_ms = 7.0 if round_number % 2 == 0 else 20.0
        changed = policy.decide(plan, observed(batch_ms=(batch_ms, 9.5, 9.5))).plan
        assert changed is not None
        batches.append((changed.gpus[0].gpulets[0].slots[0].batch, changed.gpus[0].gpulets[0].share_units))
        plan = changed
        policy.decide(plan, observed())  # the period after a change

    assert [batch for batch, _ in batches] == [3, 2, 3, 2, 3, 3]
    assert [units for _, units in batches[:5]] == [4] * 5
    assert batches[5][1] > 4


def test_gpulets_with_turns_or_without_requests_are_not_changed() -> None:
    turns = Gpulet(4, (*PLAN.gpus[0].gpulets[0].slots, *PLAN.gpus[0].gpulets[1].slots), 5.0)
    plan = Plan("few", (PlacedGpu("toy", (turns,)), PLAN.gpus[1]))

    policy = Reactive(INSTANCE)
    for _ in range(3):
        assert policy.decide(plan, observed(served=(1000, 1000, 0), batch_ms=(12.0, 12.0, 12.0))) == PeriodDecision()


@pytest.mark.parametrize("policy", [Shadow, Reactive])
def test_policies_that_change_shares_refuse_mig_instances(policy: Any) -> None:
    with pytest.raises(InputError, match="changes shares, which the MIG instances"):
        policy(SUITES["parvagpu"].build()[0])


def test_only_permitted_shares_are_taken() -> None:
    gpu = replace(TOY, allowed_shares=(2, 4, 7, 10))
    instance = replace(INSTANCE, gpus=(GpuPool(gpu, None),))
    plan = plan_of([("a", 4, 2)], [("b", 4, 2)])

    assert Shadow(instance).decide(plan, observed(late=(500, 0, 0))) == PeriodDecision()  # 5 units are not allowed

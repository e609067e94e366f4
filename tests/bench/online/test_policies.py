"""Tests of the policies' decisions after a period, worked by hand."""

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


def seen(
    *, served: Sequence[int] = (1000, 1000, 1000), batch_ms: Sequence[float] = (9.5,) * 3, **counts: Any
) -> Observation:
    """Ten seconds; batches take within the band of the target, 10 ms, and nobody is late unless said."""
    nobody = (0, 0, 0)
    dropped = np.array(counts.get("dropped", nobody))
    done = np.array(served)
    return Observation(
        10.0,
        done + dropped,
        done,
        np.array(counts.get("late", nobody)),
        dropped,
        done * np.array(batch_ms, dtype=float),
    )


class Recorder:
    """Stands in for a planner."""

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


def test_every_policy_answers() -> None:
    for make in POLICIES.values():
        policy = make(INSTANCE, Recorder(PLAN), 0.5)  # type: ignore[arg-type]
        assert policy.period_s > 0.0
        assert isinstance(policy.decide(PLAN, seen()), PeriodDecision)


# rescheduling


def test_rates_are_estimated_by_an_exponentially_weighted_average() -> None:
    planner = Recorder(PLAN)
    policy = Reschedule(planner, INSTANCE, 0.25)  # type: ignore[arg-type]

    for _ in range(2):
        assert policy.decide(PLAN, seen(served=(2000, 1000, 0))) == PeriodDecision(PLAN, without_headroom=False)

    # from 100 towards 200, 100 and 0
    assert planner.asked == [[125.0, 100.0, 75.0], [143.75, 100.0, 56.25]]
    assert planner.starts == [PLAN, PLAN]


def test_who_is_silent_keeps_a_place() -> None:
    planner = Recorder(PLAN)

    Reschedule(planner, INSTANCE, 1.0).decide(PLAN, seen(served=(0, 1000, 0)))  # type: ignore[arg-type]

    assert planner.asked == [[0.1, 100.0, 0.1]]


def test_without_a_plan_the_rates_are_unschedulable() -> None:
    policy = Reschedule(Recorder(None), INSTANCE, 1.0)  # type: ignore[arg-type]

    assert policy.decide(PLAN, seen()) == PeriodDecision(None, unschedulable=True)


@pytest.mark.parametrize("weight", [0.0, -0.5, 1.5, float("nan")])
def test_weights_out_of_range_are_refused(weight: float) -> None:
    with pytest.raises(InputError, match="weight"):
        Reschedule(Recorder(PLAN), INSTANCE, weight)  # type: ignore[arg-type]


# shadows


def test_who_violates_moves_once_to_a_tenth_of_the_gpu_more() -> None:
    policy = Shadow(INSTANCE)
    assert policy.decide(PLAN, seen(late=(10, 0, 0))) == PeriodDecision()  # one in a hundred is no violation

    first = policy.decide(PLAN, seen(late=(11, 0, 0))).plan
    assert first == plan_of([("a", 5, 2), ("b", 5, 2)], [("c", 5, 2)])

    again = policy.decide(first, seen(late=(500, 0, 0), dropped=(0, 0, 11))).plan
    assert again == plan_of([("a", 5, 2), ("b", 5, 2)], [("c", 6, 2)])
    assert policy.decide(again, seen(dropped=(500, 500, 500))) == PeriodDecision()  # b's GPU is full


def test_one_workload_of_a_gpu_moves_at_a_time() -> None:
    policy = Shadow(INSTANCE)
    plan = plan_of([("a", 4, 2), ("b", 4, 2)])

    first = policy.decide(plan, seen(late=(500, 500, 0))).plan
    assert first == plan_of([("a", 5, 2), ("b", 4, 2)])
    assert policy.decide(first, seen(late=(500, 500, 0))).plan == plan_of([("a", 5, 2), ("b", 5, 2)])


def test_shadows_stand_by_until_they_are_used() -> None:
    policy = Shadow(INSTANCE)
    assert policy.standby(PLAN) == plan_of([("a", 5, 2), ("b", 6, 2)], [("c", 6, 2)])

    moved = policy.decide(PLAN, seen(late=(500, 0, 0))).plan
    assert moved is not None
    assert policy.standby(moved) == plan_of([("b", 5, 2)], [("c", 6, 2)])


# reactive tuning


@pytest.mark.parametrize(
    ("batch_ms", "late", "units", "batch"),
    [
        pytest.param(9.5, 0, 4, 2, id="within the band"),
        pytest.param(9.5, 500, 5, 2, id="late: a larger share"),
        pytest.param(12.0, 0, 5, 1, id="too slow: a larger share and a smaller batch"),
        pytest.param(7.0, 0, 3, 2, id="too fast: a smaller share"),
        pytest.param(4.0, 0, 3, 4, id="far too fast: twice the batch at most"),
        pytest.param(4.0, 500, 5, 4, id="fast and yet late: a larger share"),
    ],
)
def test_a_workload_tunes_itself(batch_ms: float, late: int, units: int, batch: int) -> None:
    found = Reactive(INSTANCE).decide(PLAN, seen(batch_ms=(batch_ms, 9.5, 9.5), late=(late, 0, 0)))

    expected = plan_of([("a", units, batch), ("b", 5, 2)], [("c", 5, 2)])
    assert found == PeriodDecision(None if expected == PLAN else expected)


def test_shares_end_where_the_gpu_does_and_at_one_unit() -> None:
    full = plan_of([("a", 5, 2), ("b", 5, 2)], [("c", 1, 2)])

    assert Reactive(INSTANCE).decide(full, seen(late=(500, 500, 0), batch_ms=(9.5, 9.5, 7.0))) == PeriodDecision()


def test_turns_and_silent_gpulets_stay() -> None:
    turns = Gpulet(4, (*PLAN.gpus[0].gpulets[0].slots, *PLAN.gpus[0].gpulets[1].slots), 5.0)
    plan = Plan("few", (PlacedGpu("toy", (turns,)), PLAN.gpus[1]))

    assert Reactive(INSTANCE).decide(plan, seen(served=(1000, 1000, 0), late=(500, 500, 0))) == PeriodDecision()


@pytest.mark.parametrize("policy", [Shadow, Reactive])
def test_instances_of_a_gpu_have_no_shares_to_change(policy: Any) -> None:
    with pytest.raises(InputError, match="changes shares, which the MIG instances"):
        policy(SUITES["parvagpu"].build()[0])


def test_only_permitted_shares_are_taken() -> None:
    gpu = replace(TOY, allowed_shares=(2, 4, 7, 10))
    instance = replace(INSTANCE, gpus=(GpuPool(gpu, None),))
    plan = plan_of([("a", 4, 2)], [("b", 4, 2)])

    assert Shadow(instance).decide(plan, seen(late=(500, 0, 0))) == PeriodDecision()  # one unit more is not permitted

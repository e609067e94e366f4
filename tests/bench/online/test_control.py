"""Online runs: no request is lost, an unchanged plan equals a simulation, and GPUs follow the load."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from bench.online.control import Online, Pace, online_instance
from bench.online.load import streams, waves
from bench.online.observation import Observation
from bench.online.planner import Planner
from bench.online.policy import OnlinePolicy, PeriodDecision, Reschedule, Static
from bench.online.result import OnlineRun, PeriodEnd
from bench.online.share_policies import Shadow
from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.trace import Trace
from instances import Application, InputError, Instance, Objective, Plan
from instances.misspecification import misspecified
from instances.suites import SUITES
from tests.frozen import frozen

STEP = Trace("step", np.repeat([1.0, 5.0, 1.0], 60))
"""A minute each of low, high and low rates."""


def scen3(rates: float = 2.0) -> Instance:
    return online_instance(frozen("gpulet-scen3")).scaled(rates)


def run_online(
    instance: Instance,
    policy: Callable[[Planner], OnlinePolicy],
    trace: Trace = STEP,
    pace: Pace | None = None,
    headroom: float = 1.2,
    seed: int = 0,
) -> OnlineRun:
    """Run online with the scheduler ``gpu-scaling``."""
    pace = pace or Pace(180.0, 20.0, 12.0)
    planner = Planner("gpu-scaling", instance, headroom=headroom)
    load = {workload.id: trace for workload in instance.workloads}
    run = Online(planner.first(), instance, policy(planner), streams(load, instance, pace.seconds, seed), pace, seed)
    periods = tuple(run.run())
    assert tuple(run.periods) == periods
    return OnlineRun(tuple(load), periods)


def run_rescheduling(instance: Instance, **terms: object) -> OnlineRun:
    return run_online(instance, lambda planner: Reschedule(planner, instance, 1.0), **terms)  # type: ignore[arg-type]


def test_a_static_plan_has_the_results_of_a_simulation() -> None:
    instance = scen3()
    plan = Planner("gpu-scaling", instance).first()
    settings = Settings(Arrivals(Process.TRACE, trace=STEP), seconds=180.0, warmup_s=0.0, seed=4)

    observation_of_run = run_online(instance, lambda _: Static(), headroom=1.0, seed=4).observation
    simulated = simulate(plan, instance, settings).workloads

    assert [*observation_of_run.arrived] == [workload.requests for workload in simulated]
    assert [*observation_of_run.late] == [workload.late for workload in simulated]
    assert [*observation_of_run.dropped] == [round(workload.drop_rate * workload.requests) for workload in simulated]
    assert observation_of_run.dropped.sum() > 1000
    assert [*observation_of_run.throughput_rps] == pytest.approx([workload.throughput_rps for workload in simulated])


def test_gpus_follow_the_load_and_a_static_plan_is_late_under_high_load() -> None:
    instance = scen3()

    following, fixed = run_rescheduling(instance), run_online(instance, lambda _: Static())

    used = [period.gpus_used for period in following.periods]
    assert max(used[5:7]) > max(used[2], used[-1])
    units = [period.share_units for period in following.periods]
    assert max(units[5:7]) > max(units[2], units[-1])
    assert {(period.gpus_used, period.share_units) for period in fixed.periods} == {
        (fixed.periods[0].gpus_used, fixed.periods[0].share_units)
    }
    # after the step, rescheduling needs a period and a reorganisation to recover; the static plan never recovers
    assert following.periods[5].observation.violation_rate < 0.01 < 0.1 < fixed.periods[5].observation.violation_rate


def test_periods_without_headroom_are_marked_until_a_plan_has_it_again() -> None:
    instance = scen3(2.6)
    following = run_rescheduling(instance, headroom=1.5)

    marks = [period.without_headroom for period in following.periods]
    assert following.without_headroom == sum(marks)
    assert marks.index(True) > 0  # from the step on
    assert not marks[-1]
    assert following.to_json()["periods_without_headroom"] == sum(marks)


def test_under_two_waves_rescheduling_is_in_time_and_a_static_plan_is_not() -> None:
    """gpulet (ATC'22, Fig. 15) on the testbed's four GPUs: less than 1 % of the requests are late over 3,200 s."""
    instance = scen3(2.9)  # up to 640 req/s of each model; Algorithm 1 plans at most 546 on four GPUs
    pace = Pace(3200.0, 20.0, 12.0)
    load = waves(instance)

    def served(headroom: float, policy: Callable[[Planner], OnlinePolicy]) -> OnlineRun:
        planner = Planner("gpu-scaling", instance, headroom=headroom)
        run = Online(planner.first(), instance, policy(planner), streams(load, instance, 3200.0, 0), pace)
        return OnlineRun(tuple(load), tuple(run.run()))

    for headroom in (1.0, 1.2):
        following = served(headroom, lambda planner: Reschedule(planner, instance, 0.8))
        fixed = served(headroom, lambda _: Static())

        assert following.observation.violation_rate < 0.01 < 0.05 < fixed.observation.violation_rate
        rates = [period.observation.rate_rps.sum() for period in following.periods]
        for resource in ("gpus_used", "share_units"):
            counts = [getattr(period, resource) for period in following.periods]
            assert np.corrcoef(rates[:-2], counts[2:])[0, 1] > 0.85
        assert {period.gpus_used for period in following.periods} == {2, 3, 4}
        assert following.overfull == 0


@pytest.mark.parametrize("reorganisation_s", [0.0, 12.0, 33.0])
@pytest.mark.parametrize("period_s", [7.0, 20.0])
def test_every_request_is_served_or_dropped(period_s: float, reorganisation_s: float) -> None:
    instance = scen3()
    pace = Pace(180.0, period_s, reorganisation_s)
    load = {workload.id: STEP for workload in instance.workloads}
    arrived = [len(stream.until(180_000.0)) for stream in streams(load, instance, 180.0, 0).values()]

    run = run_rescheduling(instance, pace=pace, headroom=1.0)

    assert [*run.observation.arrived] == arrived
    assert [*(run.observation.served + run.observation.dropped)] == arrived
    assert run.observation.seconds == pytest.approx(180.0)
    assert sum(run.count(answer) for answer in PeriodEnd) == len(run.periods)
    assert run.count(PeriodEnd.REORGANISED if reorganisation_s else PeriodEnd.EXCHANGED) > 0
    assert (run.count(PeriodEnd.UNDER_WAY) > 0) == (reorganisation_s > period_s)


def test_the_same_seed_gives_the_same_run() -> None:
    instance = scen3()

    first, repeated, other = (run_rescheduling(instance, seed=seed) for seed in (1, 1, 2))

    assert first.to_json() == repeated.to_json()
    assert first.to_json() != other.to_json()


def test_a_new_plan_serves_when_its_processes_are_ready() -> None:
    """Until then, the GPUs and the memory of both plans are in use."""
    instance = scen3()
    small, large = (Planner("gpu-scaling", instance.scaled(factor)).first() for factor in (0.5, 2.0))
    small, large = replace(small, instance=instance.name), replace(large, instance=instance.name)
    assert small.gpus_used < large.gpus_used

    class Once(Static):
        def decide(self, plan: Plan, seen: Observation) -> PeriodDecision:
            return PeriodDecision(large if plan == small else None)

    load = {workload.id: Trace("flat", np.ones(1)) for workload in instance.workloads}
    pace = Pace(60.0, 20.0, 15.0)
    run = Online(small, instance, Once(), streams(load, instance, 60.0, 0), pace)
    first, second, third = run.run()

    assert [each.action for each in (first, second, third)] == [PeriodEnd.REORGANISED, PeriodEnd.KEPT, PeriodEnd.KEPT]
    assert (first.gpus_used, second.gpus_used) == (small.gpus_used, large.gpus_used)
    assert (first.gpus_held, third.gpus_held) == (small.gpus_used, large.gpus_used)
    assert second.gpus_held == pytest.approx(large.gpus_used)
    assert first.memory_pct is not None
    assert second.memory_pct is not None
    assert third.memory_pct is not None
    assert second.memory_pct > max(first.memory_pct, third.memory_pct)


def test_a_shadow_process_serves_without_a_reorganisation() -> None:
    """iGniter, Sec. 5.3: with a shadow process, iGniter need not spend 10 s on launching a new Triton process."""
    instance = online_instance(SUITES["igniter-12"].build()[0])
    plan = Planner("igniter", instance).first()
    requests = {
        workload.id: Stream(Arrivals(Process.CONSTANT), workload.rate_rps, 0, workload.id)
        for workload in instance.workloads
    }
    truth = misspecified(instance, error=0.1, seed=0)

    first, second = Online(plan, instance, Shadow(instance), requests, Pace(2.0, 1.0, 12.0), truth=truth).run()

    assert (first.action, second.action) == (PeriodEnd.EXCHANGED, PeriodEnd.KEPT)
    late, (position, *_) = first.observation.violating, np.flatnonzero(first.observation.violating)
    assert not np.any(second.observation.violating[late])
    name = instance.workloads[position].id
    before, after = (
        next(gpulet for _, gpulet, slot in plan_.slots() if slot.workload == name) for plan_ in (plan, second.plan)
    )
    assert after.share_units > before.share_units


def test_without_a_plan_for_the_rates_the_old_plan_stays() -> None:
    instance = scen3(3.6)

    run = run_rescheduling(instance, headroom=1.0)  # up to 771 req/s of each model, more than four GPUs serve

    assert run.count(PeriodEnd.UNSCHEDULABLE) > 0
    failed = next(n for n, period in enumerate(run.periods) if period.action is PeriodEnd.UNSCHEDULABLE)
    assert run.periods[failed + 1].gpus_used == run.periods[failed].gpus_used


def test_an_online_instance_replaces_scale_by_cost_on_the_same_pool() -> None:
    scale = frozen("gpulet-scen3")

    assert online_instance(scale) == replace(scale, objective=Objective.COST)
    assert online_instance(online_instance(scale)) == online_instance(scale)


def test_instances_that_online_runs_do_not_support_are_refused() -> None:
    instance = scen3()
    ids = tuple(workload.id for workload in instance.workloads)
    chained = replace(instance, applications=(Application("app", ids[:2], ((ids[0], ids[1]),), 200.0),))

    with pytest.raises(InputError, match="applications"):
        online_instance(chained)
    with pytest.raises(InputError, match="language-model services"):
        online_instance(SUITES["llm-4gpu"].build()[0])
    with pytest.raises(InputError, match="goodput"):
        online_instance(replace(instance, objective=Objective.GOODPUT))


@pytest.mark.parametrize(
    ("pace", "option"),
    [
        ((0.0, 20.0, 12.0), "seconds"),
        ((inf, 20.0, 12.0), "seconds"),
        ((60.0, 0.0, 12.0), "period_s"),
        ((60.0, -1.0, 12.0), "period_s"),
        ((60.0, 20.0, -1.0), "reorganisation_s"),
    ],
)
def test_times_out_of_range_are_refused(pace: tuple[float, float, float], option: str) -> None:
    with pytest.raises(InputError, match=option):
        Pace(*pace)


def test_an_interrupted_run_has_its_finished_periods() -> None:
    instance = scen3()
    planner = Planner("gpu-scaling", instance)
    load = {workload.id: STEP for workload in instance.workloads}
    requests = streams(load, instance, 180.0, 0)
    run = Online(planner.first(), instance, Static(), requests, Pace(180.0, 20.0, 12.0))

    steps = run.run()
    next(steps), next(steps)

    assert [period.begin_s for period in run.periods] == [0.0, 20.0]
    assert run.periods[0].observation.served.sum() > 0


@pytest.mark.parametrize(("seconds", "period_s"), [(60.0, 20.0), (0.3, 0.1), (0.7, 0.1), (50.0, 20.0), (5.0, 20.0)])
def test_periods_cover_the_run(seconds: float, period_s: float) -> None:
    periods = [*Pace(seconds, period_s, 0.0).periods()]

    assert [periods[0][0], periods[-1][1]] == [0.0, seconds]
    assert [end for _, end in periods[:-1]] == [begin for begin, _ in periods[1:]]
    assert all(0.5 * min(period_s, seconds) <= end - begin <= 1.01 * period_s for begin, end in periods)
    assert len(periods) == max(1, round(seconds / period_s + 0.4))

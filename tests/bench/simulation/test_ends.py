"""Begin and end of simulations: a backlog, unfinished requests, and the drain after the last arrival."""

from dataclasses import replace

import numpy as np
import pytest

from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.driver import Simulation
from bench.simulation.settings import DRAIN_S, drain_s
from instances import (
    Application,
    GpuPool,
    GpuType,
    InputError,
    Instance,
    Objective,
    Plan,
    SloRule,
    Workload,
    spatial_gpu,
)
from tests.instances.reference import TOY

A = Workload("a", "small", 40.0, 200.0)
CONSTANT = Arrivals(Process.CONSTANT)
DEAD_GPU = replace(TOY, hardware=replace(TOY.hardware, max_power_w=-2000.0))
"""GPU with so little power that its batches never end."""


def toys(*workloads: Workload, gpu: GpuType = TOY, **fields: object) -> Instance:
    pool = (GpuPool(gpu, None),)
    return Instance("toys", Objective.COST, SloRule.HALF_SLO, "igniter", pool, workloads, **fields)  # type: ignore[arg-type]


def alone(rate_rps: float, slo_ms: float = 40.0, **fields: object) -> tuple[Plan, Instance]:
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, rate_rps)]),))
    return plan, toys(replace(A, rate_rps=rate_rps, slo_ms=slo_ms), **fields)


@pytest.mark.parametrize("dropping", [True, False])
def test_the_instance_says_whether_requests_are_dropped(dropping: bool) -> None:
    """At 600 req/s, the slot is overloaded: a fifth of the requests is dropped, or almost all are late."""
    plan, instance = alone(600.0, dropping=dropping)
    (by_instance,) = simulate(plan, instance).workloads

    assert (by_instance.dropped > 0) == dropping
    assert (by_instance.violation_rate > 0.9) != dropping
    assert simulate(plan, instance, Settings(dropping=dropping)).workloads == (by_instance,)
    (by_setting,) = simulate(plan, instance, Settings(dropping=not dropping)).workloads
    assert (by_setting.dropped > 0) != dropping


def test_a_backlog_is_served_first() -> None:
    """The server begins after 40 ms, when eight requests wait; each takes 2.15 ms, and one more arrives every 5 ms."""
    plan, instance = alone(200.0)
    settings = Settings(CONSTANT, seconds=1.0, warmup_s=0.0, dropping=False)
    idle, backlog = (simulate(plan, instance, replace(settings, backlog=b)).workloads[0] for b in (False, True))

    assert idle.late == 0
    assert idle.max_ms == pytest.approx(2.25)
    assert backlog.max_ms == pytest.approx(42.25)
    assert backlog.late == 1  # the one of 0 ms; each later one waits 2.85 ms less
    dropping = simulate(plan, instance, replace(settings, backlog=True, dropping=True)).workloads[0]
    assert dropping.dropped == 1


def test_a_backlog_has_no_effect_after_the_warm_up() -> None:
    plan, instance = alone(200.0)
    settings = Settings(seconds=10.0)

    idle, backlog = (simulate(plan, instance, replace(settings, backlog=b)).workloads for b in (False, True))
    assert idle == backlog


@pytest.mark.parametrize("interval_s", [0.5, 3.0])
def test_unfinished_requests_are_counted_as_arrived_and_not_in_time(interval_s: float) -> None:
    """No batch ends: all requests are unfinished, in the counts and in the series."""
    plan, instance = alone(200.0, gpu=DEAD_GPU)
    simulation = simulate(plan, instance, Settings(CONSTANT, 3.0, 0.0, dropping=False, interval_s=interval_s))
    (workload,) = simulation.workloads

    assert (workload.requests, workload.unfinished, workload.violation_rate) == (600, 600, 1.0)
    assert simulation.missed == 600
    assert simulation.series is not None
    assert simulation.series.arrived[:, 0].tolist() == [200 * interval_s] * round(3.0 / interval_s)
    assert simulation.series.in_time.sum() == simulation.series.late.sum() == simulation.series.dropped.sum() == 0


def test_requests_unfinished_at_a_later_stage_are_counted_there() -> None:
    """The first stage serves all requests; the second never ends a batch, so all its requests are unfinished."""
    stages = (A, replace(A, id="b", model="small"))
    application = Application("app", ("a", "b"), (("a", "b"),), 80.0)
    instance = toys(*stages, applications=(application,))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 200.0)]), spatial_gpu("toy", [("b", 4, 8, 200.0)])))
    settings = Settings(CONSTANT, 1.0, 0.0, dropping=False)
    run = Simulation(plan, instance, settings, instance)
    run.groups[0].site.times["gpu_ms"][1] = np.inf
    run.advance(run.kernel_settings.to_ms)
    run.drain()
    first, second = run.result().workloads

    assert (first.requests, first.unfinished) == (200, 0)
    assert (second.requests, second.unfinished, second.violation_rate) == (200, 200, 1.0)


@pytest.mark.parametrize("rate_rps", [200.0, 0.02])
def test_the_drain_ends_at_its_limit(rate_rps: float) -> None:
    """With few requests, a window of arrivals is longer than the drain."""
    plan, instance = alone(rate_rps, gpu=DEAD_GPU, slo_ms=25_000.0)
    run = Simulation(plan, instance, Settings(CONSTANT, 1.0, 0.0, dropping=False), instance)
    run.advance(run.kernel_settings.to_ms)
    run.drain()

    assert run.now_ms == 1000.0 * (1.0 + DRAIN_S)


def test_the_drain_is_longer_with_longer_slos() -> None:
    assert drain_s(toys(A)) == DRAIN_S == 60.0
    assert drain_s(toys(replace(A, slo_ms=100_000.0))) == 200.0
    _, instance = alone(0.01, slo_ms=200_000.0)
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 8, 0.01)]),))  # a partial batch waits for half the SLO
    (workload,) = simulate(plan, instance, Settings(CONSTANT, 1000.0, 0.0)).workloads

    assert workload.unfinished == workload.late == 0
    assert workload.max_ms == pytest.approx(100_000.0, rel=0.01)


def test_noise_differs_between_gpu_types() -> None:
    """Two equal workloads on GPUs of different types have the same times without noise, and different ones with it."""
    twin = replace(TOY, name="twin")
    pools = (GpuPool(TOY, None), GpuPool(twin, None))
    workloads = (replace(A, rate_rps=10.0), replace(A, id="b", rate_rps=10.0))
    instance = Instance("toys", Objective.COST, SloRule.HALF_SLO, "igniter", pools, workloads)
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 10.0)]), spatial_gpu("twin", [("b", 4, 1, 10.0)])))

    def means_ms(noise: float) -> list[float | None]:
        settings = Settings(CONSTANT, 10.0, 0.0, noise=noise)
        return [workload.mean_ms for workload in simulate(plan, instance, settings).workloads]

    first, second = means_ms(0.0)
    assert first == pytest.approx(second)
    first, second = means_ms(0.3)
    assert first != pytest.approx(second)


def test_the_number_of_intervals_of_a_series_is_rounded_up() -> None:
    lengths = ((3.0, 1.0, 3), (3.2, 1.0, 4), (0.3, 0.1, 3), (9.0, 0.9, 10))
    assert all(Settings(seconds=s, interval_s=each).intervals == count for s, each, count in lengths)
    assert Settings(seconds=3.0).intervals == 0
    with pytest.raises(InputError, match="seconds: 100000; expected a time of at most 86,400 s with a series"):
        Settings(seconds=100_000.0, interval_s=1.0)

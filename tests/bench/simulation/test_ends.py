"""Begin and end of a simulation: a backlog, requests that are unfinished at the end, and the end of the drain."""

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
DEAD = replace(TOY, hardware=replace(TOY.hardware, max_power_w=-2000.0))
"""A GPU with so little power that its batches never end."""


def toys(*workloads: Workload, gpu: GpuType = TOY, **given: object) -> Instance:
    pool = (GpuPool(gpu, None),)
    return Instance("toys", Objective.COST, SloRule.HALF_SLO, "igniter", pool, workloads, **given)  # type: ignore[arg-type]


def alone(rate_rps: float, slo_ms: float = 40.0, **given: object) -> tuple[Plan, Instance]:
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, rate_rps)]),))
    return plan, toys(replace(A, rate_rps=rate_rps, slo_ms=slo_ms), **given)


@pytest.mark.parametrize("dropping", [True, False])
def test_the_instance_says_whether_requests_are_dropped(dropping: bool) -> None:
    """At 600 req/s a fifth has no time: it is dropped, or everything is late."""
    plan, instance = alone(600.0, dropping=dropping)
    (own,) = simulate(plan, instance).workloads

    assert (own.dropped > 0) == dropping
    assert (own.violation_rate > 0.9) != dropping
    assert simulate(plan, instance, Settings(dropping=dropping)).workloads == (own,)
    (other,) = simulate(plan, instance, Settings(dropping=not dropping)).workloads
    assert (other.dropped > 0) != dropping


def test_a_backlog_is_served_before_the_others() -> None:
    """The server begins after 40 ms, when eight requests wait; 2.15 ms each, and later ones come every 5 ms."""
    plan, instance = alone(200.0)
    settings = Settings(CONSTANT, seconds=1.0, warmup_s=0.0, dropping=False)
    idle, backlog = (simulate(plan, instance, replace(settings, backlog=b)).workloads[0] for b in (False, True))

    assert idle.late == 0
    assert idle.max_ms == pytest.approx(2.25)
    assert backlog.max_ms == pytest.approx(42.25)
    assert backlog.late == 1  # at 0 ms; the next one is served 2.85 ms sooner
    dropping = simulate(plan, instance, replace(settings, backlog=True, dropping=True)).workloads[0]
    assert dropping.dropped == 1


def test_a_backlog_is_forgotten_after_the_warmup() -> None:
    plan, instance = alone(200.0)
    settings = Settings(seconds=10.0)

    idle, backlog = (simulate(plan, instance, replace(settings, backlog=b)).workloads for b in (False, True))
    assert idle == backlog


@pytest.mark.parametrize("interval_s", [0.5, 3.0])
def test_unfinished_requests_arrive_and_are_not_in_time(interval_s: float) -> None:
    """No batch ends: all requests are unfinished, in the counts and in the series."""
    plan, instance = alone(200.0, gpu=DEAD)
    found = simulate(plan, instance, Settings(CONSTANT, 3.0, 0.0, dropping=False, interval_s=interval_s))
    (one,) = found.workloads

    assert (one.requests, one.unfinished, one.violation_rate) == (600, 600, 1.0)
    assert found.missed == 600
    assert found.series is not None
    assert found.series.arrived[:, 0].tolist() == [200 * interval_s] * round(3.0 / interval_s)
    assert found.series.in_time.sum() == found.series.late.sum() == found.series.dropped.sum() == 0


def test_requests_unfinished_at_a_later_stage_arrive_there() -> None:
    """The first stage serves, the second one never ends a batch: what arrived there is unfinished, not lost."""
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
    """With few requests a window of arrivals is longer than the drain."""
    plan, instance = alone(rate_rps, gpu=DEAD, slo_ms=25_000.0)
    run = Simulation(plan, instance, Settings(CONSTANT, 1.0, 0.0, dropping=False), instance)
    run.advance(run.kernel_settings.to_ms)
    run.drain()

    assert run.now_ms == 1000.0 * (1.0 + DRAIN_S)


def test_requests_with_a_longer_slo_have_longer_to_end() -> None:
    assert drain_s(toys(A)) == DRAIN_S == 60.0
    assert drain_s(toys(replace(A, slo_ms=100_000.0))) == 200.0
    _, instance = alone(0.01, slo_ms=200_000.0)
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 8, 0.01)]),))  # a partial batch waits for half the SLO
    (found,) = simulate(plan, instance, Settings(CONSTANT, 1000.0, 0.0)).workloads

    assert found.unfinished == found.late == 0
    assert found.max_ms == pytest.approx(100_000.0, rel=0.01)


def test_noise_differs_between_gpu_types() -> None:
    """The same workload alone on a GPU of each type, at the same times: the factors on its times are others."""
    twin = replace(TOY, name="twin")
    pools = (GpuPool(TOY, None), GpuPool(twin, None))
    workloads = (replace(A, rate_rps=10.0), replace(A, id="b", rate_rps=10.0))
    instance = Instance("toys", Objective.COST, SloRule.HALF_SLO, "igniter", pools, workloads)
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 10.0)]), spatial_gpu("twin", [("b", 4, 1, 10.0)])))

    def found(noise: float) -> list[float | None]:
        settings = Settings(CONSTANT, 10.0, 0.0, noise=noise)
        return [one.mean_ms for one in simulate(plan, instance, settings).workloads]

    first, second = found(0.0)
    assert first == pytest.approx(second)
    first, second = found(0.3)
    assert first != pytest.approx(second)


def test_a_series_has_an_interval_for_every_part_of_the_time() -> None:
    lengths = ((3.0, 1.0, 3), (3.2, 1.0, 4), (0.3, 0.1, 3), (9.0, 0.9, 10))
    assert all(Settings(seconds=s, interval_s=each).intervals == count for s, each, count in lengths)
    assert Settings(seconds=3.0).intervals == 0
    with pytest.raises(InputError, match="seconds: 100000; expected a time of at most 86,400 s with a series"):
        Settings(seconds=100_000.0, interval_s=1.0)

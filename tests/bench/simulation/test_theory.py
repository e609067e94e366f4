"""One queue against queueing theory: D/D/1 exactly, M/D/1 within 1 %, and Little's law."""

from dataclasses import replace

import pytest

from bench.plan_simulation import Interference, Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from tests.instances.reference import SMALL, TOY

# A GPU without transfer and scheduling times: at 40 %, a batch of b takes b + 1 ms.
PURE = replace(SMALL, scheduling_alone_ms=0.0, input_bytes=0, output_bytes=0)
GPU = replace(TOY, models={"small": PURE, "large": TOY.models["large"]})
CONSTANT = Settings(Arrivals(Process.CONSTANT), seconds=20.0, warmup_s=2.0, interference=Interference.STATIC)
POISSON = Settings(seconds=3000.0, warmup_s=10.0, interference=Interference.STATIC, dropping=False)


def queue(batch: int, rate_rps: float, slo_ms: float) -> tuple[Plan, Instance]:
    workload = Workload("a", "small", slo_ms, rate_rps)
    instance = Instance("q", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(GPU, None),), (workload,))
    return Plan("q", (spatial_gpu("toy", [("a", 4, batch, rate_rps)]),)), instance


@pytest.mark.parametrize("interference", list(Interference))
def test_d_d_1_below_capacity_serves_at_once(interference: Interference) -> None:
    workload = simulate(*queue(1, 250.0, 10.0), replace(CONSTANT, interference=interference)).workloads[0]

    assert workload.requests == 5000
    assert (workload.p50_ms, workload.p99_ms, workload.max_ms, workload.mean_ms) == (2.0, 2.0, 2.0, 2.0)
    assert (workload.throughput_rps, workload.goodput_rps, workload.violation_rate) == (250.0, 250.0, 0.0)
    assert workload.mean_queue == 0.0


def test_d_d_1_at_capacity_still_serves_at_once() -> None:
    workload = simulate(*queue(1, 500.0, 10.0), CONSTANT).workloads[0]

    assert (workload.requests, workload.max_ms, workload.mean_ms) == (10_000, 2.0, 2.0)


def test_d_d_1_beyond_capacity_has_linearly_growing_latencies() -> None:
    """1000 req/s arrive, 500 are served: from the start, a request that arrives at t ms is done at 2 t + 2 ms."""
    settings = replace(CONSTANT, seconds=1.0, warmup_s=1.0, dropping=False)

    workload = simulate(*queue(1, 1000.0, 10.0), settings).workloads[0]

    assert (workload.requests, workload.late, workload.unfinished) == (1000, 1000, 0)
    assert workload.max_ms == 1999.0 + 2.0
    assert workload.mean_ms == 1000.0 + 999.0 / 2 + 2.0


def test_d_d_1_beyond_capacity_drops_the_excess() -> None:
    workload = simulate(*queue(1, 1000.0, 10.0), CONSTANT).workloads[0]

    assert workload.drop_rate == pytest.approx(0.5, abs=1e-3)
    assert workload.late == 0
    assert workload.goodput_rps == pytest.approx(500.0, abs=0.5)
    assert workload.max_ms is not None
    assert 8.0 <= workload.max_ms <= 10.0  # served requests have waited almost as long as their SLO permits


def test_d_d_1_in_full_batches_waits_for_the_last_of_each() -> None:
    """A batch of four takes 5 ms; its requests arrive 4 ms apart, so the first waits 12 ms and the last 0 ms."""
    workload = simulate(*queue(4, 250.0, 100.0), CONSTANT).workloads[0]

    assert workload.requests == 5000
    assert (workload.max_ms, workload.mean_ms) == (12.0 + 5.0, 6.0 + 5.0)
    assert workload.histogram[workload.histogram > 0].tolist() == [1250] * 4
    assert workload.mean_queue == 250.0 * 6.0 / 1000.0


def test_d_d_1_in_batches_that_time_out() -> None:
    """A batch of eight is never full within the timeout of 10 ms: three requests, of 0, 4 and 8 ms, run together."""
    workload = simulate(*queue(8, 250.0, 20.0), CONSTANT).workloads[0]

    assert (workload.requests, workload.violation_rate) == (5000, 0.0)
    assert (workload.max_ms, workload.mean_ms) == (pytest.approx(10.0 + 4.0), pytest.approx(6.0 + 4.0, rel=1e-3))


@pytest.mark.parametrize("interference", list(Interference))
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_m_d_1_has_the_mean_wait_of_pollaczek_and_khinchine(load: float, interference: Interference) -> None:
    """The mean wait is load / (2 (1 - load)) times the service time."""
    settings = replace(POISSON, seconds=2000.0 / load, interference=interference)

    workload = simulate(*queue(1, 500.0 * load, 1e6), settings).workloads[0]

    assert workload.mean_ms is not None
    assert workload.mean_ms - 2.0 == pytest.approx(2.0 * load / (2 * (1 - load)), rel=0.01)


def test_the_mean_wait_in_service_times_depends_on_the_load_alone() -> None:
    """At a smaller share with a service time of 5 ms, the formula is the same."""
    plan, instance = queue(1, 150.0, 1e6)
    slow = replace(plan, gpus=(spatial_gpu("toy", [("a", 1, 1, 150.0)]),))  # 40 / 10 + 1 = 5 ms

    workload = simulate(slow, instance, replace(POISSON, seconds=20_000.0)).workloads[0]

    assert workload.mean_ms is not None
    assert workload.mean_ms - 5.0 == pytest.approx(5.0 * 0.75 / (2 * 0.25), rel=0.01)


@pytest.mark.parametrize(("batch", "rate_rps"), [(1, 400.0), (4, 600.0), (8, 300.0)])
def test_the_mean_queue_is_that_of_littles_law(batch: int, rate_rps: float) -> None:
    """The mean queue is the rate times the mean wait, which is the latency less the batch's time."""
    workload = simulate(*queue(batch, rate_rps, 60.0), replace(POISSON, seconds=100.0)).workloads[0]

    assert workload.mean_ms is not None
    assert workload.mean_queue is not None
    in_system = workload.throughput_rps * workload.mean_ms / 1000.0
    # Requests in execution: for 2 ms in a batch of one, up to b + 1 ms in a full batch.
    least_executing, most_executing = (workload.throughput_rps * ms / 1000.0 for ms in (2.0, batch + 1.0))
    assert in_system - most_executing - 1e-9 <= workload.mean_queue <= in_system - least_executing + 1e-9


def test_requests_outside_the_measured_time_are_not_counted() -> None:
    without_warmup, with_warmup = (
        simulate(*queue(1, 250.0, 10.0), replace(CONSTANT, warmup_s=warmup_s, seconds=0.1)).workloads[0].requests
        for warmup_s in (0.0, 3.0)
    )

    assert without_warmup == with_warmup == 25

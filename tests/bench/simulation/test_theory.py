"""One queue against theory: D/D/1 exactly, M/D/1 within a percent, Little's law."""

from dataclasses import replace

import pytest

from bench.plan_simulation import Interference, Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from tests.instances.reference import SMALL, TOY

# In one byte or two nothing is transferred: a batch of b on 40 % takes b + 1 ms and no more.
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
    found = simulate(*queue(1, 250.0, 10.0), replace(CONSTANT, interference=interference)).workloads[0]

    assert found.requests == 5000
    assert (found.p50_ms, found.p99_ms, found.max_ms, found.mean_ms) == (2.0, 2.0, 2.0, 2.0)
    assert (found.throughput_rps, found.goodput_rps, found.violation_rate) == (250.0, 250.0, 0.0)
    assert found.mean_queue == 0.0


def test_d_d_1_at_capacity_still_serves_at_once() -> None:
    found = simulate(*queue(1, 500.0, 10.0), CONSTANT).workloads[0]

    assert (found.requests, found.max_ms, found.mean_ms) == (10_000, 2.0, 2.0)


def test_d_d_1_beyond_capacity_falls_behind_by_a_constant() -> None:
    """1000 req/s come, 500 leave: the request at t ms is done at 2 t + 2 ms, counted from the warm-up's start."""
    settings = replace(CONSTANT, seconds=1.0, warmup_s=1.0, dropping=False)

    found = simulate(*queue(1, 1000.0, 10.0), settings).workloads[0]

    assert (found.requests, found.late, found.unfinished) == (1000, 1000, 0)
    assert found.max_ms == 1999.0 + 2.0
    assert found.mean_ms == 1000.0 + 999.0 / 2 + 2.0


def test_d_d_1_beyond_capacity_drops_the_excess() -> None:
    found = simulate(*queue(1, 1000.0, 10.0), CONSTANT).workloads[0]

    assert found.drop_rate == pytest.approx(0.5, abs=1e-3)
    assert found.late == 0
    assert found.goodput_rps == pytest.approx(500.0, abs=0.5)
    assert found.max_ms is not None
    assert 8.0 <= found.max_ms <= 10.0  # who is served has waited as long as he can, within one service


def test_d_d_1_in_full_batches_waits_for_the_last_of_each() -> None:
    """Four come in 16 ms; five milliseconds later all are done: the first has waited 12 ms, the last not at all."""
    found = simulate(*queue(4, 250.0, 100.0), CONSTANT).workloads[0]

    assert found.requests == 5000
    assert (found.max_ms, found.mean_ms) == (12.0 + 5.0, 6.0 + 5.0)
    assert found.histogram[found.histogram > 0].tolist() == [1250] * 4
    assert found.mean_queue == 250.0 * 6.0 / 1000.0


def test_d_d_1_in_batches_that_time_out() -> None:
    """Eight never come within 10 ms: the first leaves then, with whoever came at 4 and 8 ms."""
    found = simulate(*queue(8, 250.0, 20.0), CONSTANT).workloads[0]

    assert (found.requests, found.violation_rate) == (5000, 0.0)
    assert (found.max_ms, found.mean_ms) == (pytest.approx(10.0 + 4.0), pytest.approx(6.0 + 4.0, rel=1e-3))


@pytest.mark.parametrize("interference", list(Interference))
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_m_d_1_waits_as_long_as_theory_says(load: float, interference: Interference) -> None:
    """Pollaczek-Khinchine: the mean wait is load / (2 (1 - load)) services."""
    settings = replace(POISSON, seconds=2000.0 / load, interference=interference)

    found = simulate(*queue(1, 500.0 * load, 1e6), settings).workloads[0]

    assert found.mean_ms is not None
    assert found.mean_ms - 2.0 == pytest.approx(2.0 * load / (2 * (1 - load)), rel=0.01)


def test_m_d_1_of_slow_services_is_the_same() -> None:
    """At another share the wait in services depends on the load alone."""
    plan, instance = queue(1, 150.0, 1e6)
    slow = replace(plan, gpus=(spatial_gpu("toy", [("a", 1, 1, 150.0)]),))  # 40 / 10 + 1 = 5 ms

    found = simulate(slow, instance, replace(POISSON, seconds=20_000.0)).workloads[0]

    assert found.mean_ms is not None
    assert found.mean_ms - 5.0 == pytest.approx(5.0 * 0.75 / (2 * 0.25), rel=0.01)


@pytest.mark.parametrize(("batch", "rate_rps"), [(1, 400.0), (4, 600.0), (8, 300.0)])
def test_queues_are_as_long_as_little_says(batch: int, rate_rps: float) -> None:
    """Mean queue = rate x mean wait, where the wait is the latency less the batch's time."""
    found = simulate(*queue(batch, rate_rps, 60.0), replace(POISSON, seconds=100.0)).workloads[0]

    assert found.mean_ms is not None
    assert found.mean_queue is not None
    in_system = found.throughput_rps * found.mean_ms / 1000.0
    # Executing: from 2 ms in a batch of one to b + 1 ms in a full one
    least, most = (found.throughput_rps * ms / 1000.0 for ms in (2.0, batch + 1.0))
    assert in_system - most - 1e-9 <= found.mean_queue <= in_system - least + 1e-9


def test_requests_that_come_before_or_after_are_not_measured() -> None:
    long, short = (
        simulate(*queue(1, 250.0, 10.0), replace(CONSTANT, warmup_s=warmup_s, seconds=0.1)).workloads[0].requests
        for warmup_s in (0.0, 3.0)
    )

    assert long == short == 25

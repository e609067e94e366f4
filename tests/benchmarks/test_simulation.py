"""Benchmarks of the simulation; ``make bench`` prints requests per second, ``make test`` runs each once."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.api import Run
from bench.plan_simulation import Interference, Settings, Simulated, simulate
from bench.simulation.arrivals import Stream
from bench.simulation.driver import Simulation
from heuristics.igniter.igniter import IGniter
from instances import Instance, Plan, spatial_gpu
from instances.suites import suite

IN_64GPU = {instance.name: instance for instance in suite("64gpu").build()}
IGNITER_12 = suite("igniter-12").build()[0]

RATE_RPS = {1: 450.0, 8: 1300.0}
"""Rates for batches of 1 and 8 at which half a V100 drops no request."""

REQUESTS = 2_000_000


def single_slot(batch: int) -> tuple[Plan, Instance]:
    """Return a plan of AlexNet alone on half a V100, and its instance."""
    workload = replace(IGNITER_12.workloads[2], id="w", slo_ms=50.0, rate_rps=RATE_RPS[batch])
    instance = replace(IGNITER_12, name="single", workloads=(workload,))
    return Plan("single", (spatial_gpu("v100", [("w", 20, batch, workload.rate_rps)]),)), instance


class GivenStream:
    """A stream of requests at given times."""

    def __init__(self, times_ms: np.ndarray) -> None:
        self.times_ms, self.taken = times_ms, 0

    def until(self, limit_ms: float) -> np.ndarray:
        first, self.taken = self.taken, int(np.searchsorted(self.times_ms, limit_ms, side="right"))
        return self.times_ms[first : self.taken]


@pytest.mark.parametrize("batch", [1, 8])
def test_a_single_slot_with_given_arrivals(benchmark: BenchmarkFixture, batch: int) -> None:
    plan, instance = single_slot(batch)
    gaps_ms = np.random.default_rng(1).exponential(1000.0 / RATE_RPS[batch], REQUESTS)
    times_ms = np.cumsum(gaps_ms)
    settings = Settings(seconds=float(times_ms[-1]) / 1000.0, warmup_s=0.0)
    simulate(plan, instance, Settings(seconds=0.1))  # loads the compiled code

    def set_up() -> tuple[tuple[Simulation], dict[str, object]]:
        streams = {"w": cast(Stream, GivenStream(times_ms))}
        return (Simulation(plan, instance, settings, instance, streams),), {}

    def serve(simulation: Simulation) -> Simulation:
        simulation.advance(float(times_ms[-1]))
        return simulation

    simulation = benchmark.pedantic(serve, setup=set_up, rounds=5)

    report(benchmark, REQUESTS)
    simulation.tally()
    assert simulation.measured.counts["dropped"].sum() == 0
    assert simulation.measured.counts["served"].sum() > 0.99 * REQUESTS


@pytest.mark.parametrize("batch", [1, 8])
def test_a_single_slot_with_poisson_arrivals(benchmark: BenchmarkFixture, batch: int) -> None:
    plan, instance = single_slot(batch)
    settings = Settings(seconds=REQUESTS / RATE_RPS[batch], warmup_s=0.0)
    simulate(plan, instance, Settings(seconds=0.1))

    simulated: Simulated = benchmark.pedantic(simulate, (plan, instance, settings), rounds=5)

    report(benchmark, simulated.requests)
    assert simulated.drop_rate == 0.0


@pytest.mark.parametrize("interference", list(Interference))
def test_the_plan_of_64gpu(benchmark: BenchmarkFixture, interference: Interference) -> None:
    problem = IN_64GPU["64gpu-cost"]
    plan = IGniter().schedule(problem, Run()).plan
    assert plan is not None
    settings = Settings(seconds=30.0, warmup_s=5.0, interference=interference)
    simulate(plan, problem, replace(settings, seconds=0.1))

    simulated: Simulated = benchmark.pedantic(simulate, (plan, problem, settings), rounds=3)

    # Requests of the warm-up are served as well
    report(benchmark, simulated.requests * (30.0 + 5.0) / 30.0)
    assert simulated.violation_rate < 0.2


def report(benchmark: BenchmarkFixture, requests: float) -> None:
    """Add the requests per second of the fastest round to the benchmark."""
    if benchmark.stats is not None:
        benchmark.extra_info["requests_per_s"] = round(requests / benchmark.stats.stats.min)

"""Comparison of the compiled simulation with the reference, request by request, on arrivals that a test chooses."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import cast

import numpy as np
import pytest

from bench.plan_simulation import Interference, Served, Settings, Simulated
from bench.simulation.arrivals import Stream
from bench.simulation.driver import Simulation
from bench.simulation.histogram import BINS, bin_of
from bench.simulation.serving_rules import ROUNDING_MS
from instances import Instance, Plan
from tests.bench.simulation.reference import World

Arrivals = Mapping[str, Sequence[float]]


class Given:
    """Stream of requests at given times."""

    def __init__(self, times_ms: Sequence[float]) -> None:
        self.times_ms = np.array(times_ms, dtype=np.float64)
        self.taken = 0

    def until(self, limit_ms: float) -> np.ndarray:
        first, self.taken = self.taken, int(np.searchsorted(self.times_ms, limit_ms, side="right"))
        return self.times_ms[first : self.taken]


def simulated(plan: Plan, instance: Instance, arrivals_ms: Arrivals, settings: Settings) -> Simulated:
    """Simulate requests at these times, by workload or application."""
    streams = {name: cast(Stream, Given(times_ms)) for name, times_ms in arrivals_ms.items()}
    steps = Simulation(plan, instance, settings, instance, streams).run()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(Simulated, done.value)


def poisson_ms(rate_rps: float, seconds: float, seed: int) -> list[float]:
    gaps = np.random.default_rng(seed).exponential(1000.0 / rate_rps, int(2 * rate_rps * seconds) + 20)
    times_ms = np.cumsum(gaps)
    return list(times_ms[times_ms < 1000.0 * seconds])


def outcomes(
    plan: Plan, instance: Instance, arrivals_ms: Arrivals, settings: Settings
) -> dict[str, list[tuple[float, float]]]:
    """Return (arrival, latency) of each request by the reference; a dropped request has an infinite latency."""
    world = World(
        plan, instance, dynamic=settings.interference is Interference.DYNAMIC, dropping=settings.drops(instance)
    )
    latencies_ms = world.run(arrivals_ms, 1000.0 * (settings.warmup_s + settings.seconds) + 60_000.0)
    return {
        name: [(times_ms[number], latency) for number, latency in sorted(latencies_ms[name].items())]
        for name, times_ms in arrivals_ms.items()
    }


def check_same(result: Served, expected: Sequence[tuple[float, float]], settings: Settings) -> None:
    """Compare the results of a workload or application with those from each request's arrival and latency."""
    from_ms = 1000.0 * settings.warmup_s
    measured = [ms for at, ms in expected if from_ms <= at < from_ms + 1000.0 * settings.seconds]
    served = [ms for ms in measured if ms < inf]
    histogram = np.bincount([bin_of(ms) for ms in served], minlength=BINS)

    assert result.requests == len(measured)
    assert (result.dropped, result.unfinished) == (len(measured) - len(served), 0)
    assert result.late == sum(ms > result.slo_ms + ROUNDING_MS for ms in served)
    assert np.array_equal(result.histogram, histogram)
    assert result.max_ms == (pytest.approx(max(served), rel=1e-9) if served else None)
    if result.mean_ms is not None:
        assert result.mean_ms == pytest.approx(sum(served) / len(served), rel=1e-9)


def agree(plan: Plan, instance: Instance, arrivals_ms: Arrivals, settings: Settings) -> Simulated:
    """Simulate, compare every workload and application with the reference, and return the results."""
    result = simulated(plan, instance, arrivals_ms, settings)
    expected = outcomes(plan, instance, arrivals_ms, settings)
    for served in (*result.workloads, *result.applications):
        if served.id in expected:
            check_same(served, expected[served.id], settings)
    return result

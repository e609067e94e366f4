"""The compiled simulation on requests that a test brings, held against the reference request by request."""

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
    """A stream of requests at given times."""

    def __init__(self, times_ms: Sequence[float]) -> None:
        self.times_ms = np.array(times_ms, dtype=np.float64)
        self.taken = 0

    def until(self, limit_ms: float) -> np.ndarray:
        first, self.taken = self.taken, int(np.searchsorted(self.times_ms, limit_ms, side="right"))
        return self.times_ms[first : self.taken]


def simulated(plan: Plan, instance: Instance, arrivals_ms: Arrivals, settings: Settings) -> Simulated:
    """Simulate with these requests, by workload or application."""
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
    """Return (arrival, latency) of each request by workload and application; latencies of the dropped are infinite."""
    world = World(
        plan, instance, dynamic=settings.interference is Interference.DYNAMIC, dropping=settings.drops(instance)
    )
    latencies_ms = world.run(arrivals_ms, 1000.0 * (settings.warmup_s + settings.seconds) + 60_000.0)
    return {
        name: [(times_ms[number], latency) for number, latency in sorted(latencies_ms[name].items())]
        for name, times_ms in arrivals_ms.items()
    }


def check_same(found: Served, expected: Sequence[tuple[float, float]], settings: Settings) -> None:
    """Hold what was measured of a workload against each request's arrival and latency."""
    from_ms = 1000.0 * settings.warmup_s
    measured = [ms for at, ms in expected if from_ms <= at < from_ms + 1000.0 * settings.seconds]
    served = [ms for ms in measured if ms < inf]
    histogram = np.bincount([bin_of(ms) for ms in served], minlength=BINS)

    assert found.requests == len(measured)
    assert (found.dropped, found.unfinished) == (len(measured) - len(served), 0)
    assert found.late == sum(ms > found.slo_ms + ROUNDING_MS for ms in served)
    assert np.array_equal(found.histogram, histogram)
    assert found.max_ms == (pytest.approx(max(served), rel=1e-9) if served else None)
    if found.mean_ms is not None:
        assert found.mean_ms == pytest.approx(sum(served) / len(served), rel=1e-9)


def agree(plan: Plan, instance: Instance, arrivals_ms: Arrivals, settings: Settings) -> Simulated:
    """Simulate, check every workload against the reference, and return what was found."""
    found = simulated(plan, instance, arrivals_ms, settings)
    expected = outcomes(plan, instance, arrivals_ms, settings)
    for each in (*found.workloads, *found.applications):
        if each.id in expected:
            check_same(each, expected[each.id], settings)
    return found

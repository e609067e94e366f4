"""Statistics of the test whether a plan holds: attainment of each workload from the series of simulations.

**Late.** A workload is late if the fraction of its requests that is not in time exceeds the allowed fraction by a
one-sided t-test. Late requests come in clusters, so the standard error is computed from sums over blocks of time, not
from single requests. If successive blocks are correlated, whole simulations take the place of blocks.

**Unclear.** A test with too few requests may miss a late workload. ``detectable`` is the missed fraction at which the
test would find the workload late with probability ``POWER``. The assumed variance of the number of late requests is
proportional to the missed fraction. The factor is the observed one, but at least that of clusters of ``CLUSTER``
requests.
The test cannot tell if ``detectable`` exceeds the allowed fraction by more than ``margin_of`` permits.

**Steady.** Half of the simulations begin with idle servers, so too few requests miss at first. The other half begin
with a backlog, so too many requests miss. If the two halves differ, the simulations have not reached the steady state.
A workload is then late only if it is late in the first half, and in time only if it is in time in the second half.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from bench.holding.verdict import WorkloadAttainment
from bench.simulation.result import Series
from instances.arrays import Flags, Floats

POWER = 0.95
"""Probability with which the test finds a workload that misses the detectable fraction."""

MARGIN = 0.005
"""Largest value of ``margin_of``, a distance of the detectable fraction from the allowed fraction."""

CLUSTER = 10.0
"""Least assumed ratio of the variance to the mean of the number of late requests: that of clusters of this size."""

CORRELATION_ERRORS = 2.5
"""Correlation of successive blocks, in standard errors, above which the blocks do not count as independent."""

UNSTEADY_ERRORS = 3.0
"""Difference of the two halves, in standard errors, above which the simulations are not in the steady state."""


class Spread(Enum):
    """Blocks of the simulations whose differences show the spread of the counts.

    ``STATIONARY``: all blocks are alike. ``WHOLE_TRACE``: every simulation covers the same trace, so blocks at the same
    position are alike. ``TRACE_PARTS``: every simulation has another part of a trace, so only whole simulations are
    alike.
    """

    STATIONARY = "stationary"
    WHOLE_TRACE = "whole trace"
    TRACE_PARTS = "trace parts"


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests of simulations by block; arrays of shape (simulations, blocks, workloads).

    Attributes
    ----------
    arrived, missed
        All requests, and the requests that are not in time.
    backlog
        Simulations that begin with a backlog, shape (simulations,).
    """

    arrived: Floats
    missed: Floats
    backlog: Flags

    def only(self, simulations: Flags) -> "Counts":
        """Return the counts of the marked simulations; ``simulations`` has shape (simulations,)."""
        return Counts(self.arrived[simulations], self.missed[simulations], self.backlog[simulations])


@dataclass(frozen=True, slots=True)
class Estimate:
    """Missed fraction of each workload with its standard error; arrays of shape (workloads,); see ``estimate``.

    Attributes
    ----------
    requests
        Number of requests.
    fraction, error
        Missed fraction, and its standard error.
    freedom
        Degrees of freedom of the standard error.
    """

    requests: Floats
    fraction: Floats
    error: Floats
    freedom: Floats

    def late(self, allowed: float, level: float) -> Flags:
        """Return the workloads that miss more than ``allowed`` by the test at ``level``."""
        # The quantile is negative, because the level is below 0.5.
        late: Flags = self.fraction + _quantile(self.freedom, level) * self.error > allowed
        return late

    def detectable(self, allowed: float, level: float) -> Floats:
        """Return the missed fraction at which ``late`` is true with probability ``POWER``."""
        clusters = self._clusters()
        distance = -_quantile(self.freedom, level) - _quantile(self.freedom, 1.0 - POWER)
        # The fraction m with m = allowed + distance · sqrt(m · clusters / requests), a quadratic equation in sqrt(m)
        half_linear = distance * np.sqrt(clusters / np.maximum(self.requests, 1.0)) / 2.0
        return np.minimum(1.0, (half_linear + np.sqrt(half_linear**2 + allowed)) ** 2)

    def _clusters(self) -> Floats:
        """Return the ratio of the variance to the mean of the number of late requests."""
        observed_variance = self.error**2 * self.requests / np.maximum(self.fraction, np.finfo(float).tiny)
        return np.maximum(CLUSTER, np.where(self.fraction > 0.0, observed_variance, 0.0))


def _quantile(freedom: Floats, probability: float) -> Floats:
    """Return the quantile of Student's distribution."""
    from scipy.special import stdtrit  # takes a fifth of a second to import

    return np.asarray(stdtrit(freedom, probability), dtype=np.float64)


def estimate(counts: Counts, spread: Spread) -> Estimate:
    """Return the missed fraction of each workload, and the standard error of this ratio of sums over blocks."""
    requests = counts.arrived.sum(axis=(0, 1))
    divisor = np.maximum(requests, 1.0)
    fraction = counts.missed.sum(axis=(0, 1)) / divisor
    residual = counts.missed - fraction * counts.arrived
    simulations, blocks = residual.shape[:2]
    other_simulations = max(1, simulations - 1)
    by_simulation = (residual.sum(axis=1) ** 2).sum(axis=0) * simulations / other_simulations
    squares = (residual**2).sum(axis=(0, 1))
    if spread is Spread.WHOLE_TRACE:
        freedom = blocks * other_simulations
        by_block = ((residual - residual.mean(axis=0)) ** 2).sum(axis=(0, 1)) * simulations / other_simulations
        correlated = np.zeros(len(requests), dtype=bool)
    else:
        freedom = max(1, simulations * blocks - 1)
        by_block = squares * simulations * blocks / freedom
        pairs = max(1, simulations * (blocks - 1))
        successive_products = (residual[:, :-1] * residual[:, 1:]).sum(axis=(0, 1)) * simulations * blocks / pairs
        correlated = successive_products > CORRELATION_ERRORS * squares / np.sqrt(pairs)
        correlated |= spread is Spread.TRACE_PARTS
    variance = np.where(correlated, by_simulation, by_block)
    error = np.sqrt(variance) / divisor
    return Estimate(requests, fraction, error, np.where(correlated, float(other_simulations), float(freedom)))


def counts_of(simulated: Sequence[Series], backlog: Sequence[bool]) -> Counts:
    """Return the counts of independent simulations, all with the same intervals."""
    arrived = np.stack([series.arrived for series in simulated]).astype(np.float64)
    in_time = np.stack([series.in_time for series in simulated])
    return Counts(arrived, arrived - in_time, np.array(backlog))


def margin_of(allowed: float) -> float:
    """Return the largest permitted distance of the detectable fraction from the allowed fraction."""
    return min(MARGIN, allowed / 2.0)


def longer_factor(detectable: float, allowed: float) -> float:
    """Return the factor on the simulated time after which ``detectable`` exceeds ``allowed`` by only the margin."""
    margin = margin_of(allowed)
    return ((detectable - allowed) ** 2 / detectable) / (margin**2 / (allowed + margin))


def workload_attainments(
    names: Sequence[str], counts: Counts, seconds: float, spread: Spread, allowed: float, level: float
) -> list[WorkloadAttainment]:
    """Return the attainment of each workload, and the results of its tests.

    Parameters
    ----------
    names
        Ids of the workloads.
    seconds
        Measured time of all simulations together.
    allowed
        Largest permitted fraction of requests that are not in time.
    level
        Probability that a workload that misses exactly the allowed fraction is found late.
    """
    all_simulations, margin = estimate(counts, spread), margin_of(allowed)
    idle_start = backlog_start = all_simulations
    if counts.backlog.any() and not counts.backlog.all():
        idle_start, backlog_start = (
            estimate(counts.only(simulations), spread) for simulations in (~counts.backlog, counts.backlog)
        )
    largest_difference = UNSTEADY_ERRORS * np.hypot(idle_start.error, backlog_start.error) + margin / 5.0
    steady = backlog_start.fraction - idle_start.fraction <= largest_difference
    late = np.where(steady, all_simulations.late(allowed, level), idle_start.late(allowed, level))
    cautious_detectable = np.maximum(backlog_start.detectable(allowed, level), backlog_start.fraction)
    detectable = np.where(steady, all_simulations.detectable(allowed, level), cautious_detectable)
    unclear = ~late & ((detectable > allowed + margin) | (~steady & backlog_start.late(allowed, level)))
    return [
        WorkloadAttainment(
            name,
            int(all_simulations.requests[w]),
            seconds,
            1.0 - float(all_simulations.fraction[w]),
            float(all_simulations.error[w]),
            float(detectable[w]),
            bool(late[w]),
            bool(unclear[w]),
        )
        for w, name in enumerate(names)
    ]

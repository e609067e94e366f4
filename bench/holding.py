"""Test whether a plan holds: whether it keeps its SLO attainment in long simulations under random arrivals.

A plan holds if no workload's attainment is below the target by a one-sided test at ``LEVEL`` divided by the number of
workloads (Bonferroni), and the pooled attainment is at least the target minus ``POOLED_MARGIN``. The attainment of a
workload is the fraction of its requests that are served within their SLO, over ``SEEDS`` simulations of ``SECONDS``
each. Late requests come in clusters, so the standard error of the attainment is computed from a hundred blocks of
``BLOCK_S``, not from single requests. The simulations have dynamic interference and dropping, and no noise; under
``goodput`` only admitted requests count.
"""

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.plan_simulation import expected_requests, simulation
from bench.simulation.arrivals import Arrivals
from bench.simulation.result import Series, Simulated
from bench.simulation.settings import Settings
from instances import InputError, Instance, Plan
from instances.arrays import Floats

SEEDS = 10
FIRST_SEED = 7_000_000
"""First seed of the simulations; schedulers and ``bench run`` use small ones."""

SECONDS = 300.0
BLOCK_S = 30
LEVEL = 0.05
POOLED_MARGIN = 0.001


@dataclass(frozen=True, slots=True)
class Attained:
    """Attainment of one workload.

    Attributes
    ----------
    requests
        Measured requests.
    attainment, standard_error
        Fraction served within the SLO, and the standard error of this fraction.
    late
        Whether the attainment is below the target by the test.
    """

    workload: str
    requests: int
    attainment: float
    standard_error: float
    late: bool


@dataclass(frozen=True, slots=True)
class Holding:
    """Result of the test of a plan.

    Attributes
    ----------
    target
        Attainment that every workload must reach.
    attainment
        Pooled attainment of all requests.
    workloads
        Results of the workloads that had requests.
    """

    target: float
    attainment: float
    workloads: tuple[Attained, ...]

    @property
    def late(self) -> tuple[Attained, ...]:
        """Workloads below the target, lowest attainment first."""
        return tuple(sorted((one for one in self.workloads if one.late), key=lambda one: one.attainment))

    @property
    def holds(self) -> bool:
        """Whether the plan holds."""
        return not self.late and self.attainment >= self.target - POOLED_MARGIN

    @property
    def requests(self) -> int:
        """Measured requests of all workloads."""
        return sum(one.requests for one in self.workloads)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "holds": self.holds,
            "target": self.target,
            "attainment": self.attainment,
            "requests": self.requests,
            "late": len(self.late),
            "workloads": [asdict(one) for one in self.workloads],
        }


def holding(
    plan: Plan, instance: Instance, arrivals: Arrivals, truth: Instance | None = None
) -> Generator[float, None, Holding]:
    """Test a plan; yield the finished fraction.

    ``plan``, ``instance`` and ``truth`` are as in ``bench.plan_simulation.simulate``.

    Raises
    ------
    InputError
        If the plan cannot be simulated, or the instance has applications.
    """
    if instance.applications:
        problem = f"{instance.name} has applications; only workloads with an SLO of their own are tested"
        raise InputError("--check", problem)
    found = []
    for n in range(SEEDS):
        settings = Settings(arrivals, SECONDS, seed=FIRST_SEED + n, by_second=True)
        steps = simulation(plan, instance, settings, truth)
        try:
            while True:
                yield (n + next(steps)) / SEEDS
        except StopIteration as done:
            result: Simulated = done.value
        assert result.series is not None
        found.append(result.series)
    return holding_of(found, instance.attainment)


def expected_requests_of_test(plan: Plan, instance: Instance) -> float:
    """Return the mean number of requests that arrive in the simulations of the test."""
    return SEEDS * expected_requests(plan, instance, Settings(seconds=SECONDS))


def holding_of(simulated: list[Series], target: float) -> Holding:
    """Return the result of the test for the series of independent simulations."""
    from scipy.special import stdtrit  # takes a fifth of a second to import

    arrived = np.concatenate([_by_block(series.arrived) for series in simulated])
    in_time = np.concatenate([_by_block(series.in_time) for series in simulated])
    asked = np.flatnonzero(arrived.sum(axis=0) > 0)
    blocks = len(arrived)
    limit = -float(stdtrit(blocks - 1, LEVEL / max(1, len(asked))))
    workloads = []
    for w in asked.tolist():
        requests, attainment = float(arrived[:, w].sum()), float(in_time[:, w].sum() / arrived[:, w].sum())
        # Standard error of a ratio of sums over independent blocks
        residual = in_time[:, w] - attainment * arrived[:, w]
        error = math.sqrt(blocks / (blocks - 1) * float(residual @ residual)) / requests
        late = attainment + limit * error < target
        workloads.append(Attained(simulated[0].workloads[w], int(requests), attainment, error, late))
    total = float(arrived.sum())
    return Holding(target, float(in_time.sum()) / total if total else 1.0, tuple(workloads))


def _by_block(counts: np.ndarray) -> Floats:
    """Return counts by second as counts by block, shape (blocks, workloads)."""
    return np.add.reduceat(counts, np.arange(0, len(counts), BLOCK_S), axis=0).astype(np.float64)

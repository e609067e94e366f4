"""Sample of gamma arrivals for the budgets of ``attainment``, and the steps of the slots that share it."""

from functools import lru_cache

import numpy as np

from instances.arrays import Floats
from instances.slot_times import BatchTimes, SlotTimes

GAMMA_STEPS = 64
"""Steps from an SLO or rate under gamma arrivals to its double; SLOs are rounded down to a step and rates up."""

GAMMA_REQUESTS = 400_000
"""Requests of the sample of gamma arrivals."""

GAMMA_SEED = 20_220_711
"""Seed of the sample; budgets depend on it."""

LEAST_LOAD = 1e-2
"""Least product of rate (requests per second) and SLO (milliseconds) under gamma arrivals. A lower rate is raised to
it, because arrival times at that rate would have too few digits."""


def on_gamma_steps(slo_ms: float, rate_rps: float) -> tuple[float, float]:
    """Return the SLO rounded down to a step, and the rate rounded up to a step.

    The rate is first raised, if necessary, so that its product with the SLO is at least ``LEAST_LOAD``.
    """
    return _rounded(slo_ms, -1), _rounded(max(rate_rps, LEAST_LOAD / slo_ms), 1)


def _rounded(value: float, direction: int) -> float:
    """Round a number down (-1) or up (1) to a step of ``GAMMA_STEPS``."""
    steps = np.log2(value) * GAMMA_STEPS
    return float(2.0 ** ((np.floor(steps) if direction < 0 else np.ceil(steps)) / GAMMA_STEPS))


@lru_cache(maxsize=32)
def gamma_arrivals(cv: float) -> Floats:
    """Return one fixed sample of arrival times at rate 1; other rates scale it."""
    shape = cv**-2
    random = np.random.Generator(np.random.PCG64(GAMMA_SEED))
    return np.cumsum(random.standard_gamma(shape, GAMMA_REQUESTS) / shape)


def slot_and_sample(times: BatchTimes, slo_ms: float, rate_rps: float, cv: float) -> tuple[SlotTimes, Floats]:
    """Return a slot and the sample of arrivals by which it is judged; the sample is empty for Poisson arrivals."""
    sample = np.empty(0)
    if cv != 1.0:
        sample = gamma_arrivals(cv)
        slo_ms, rate_rps = on_gamma_steps(slo_ms, rate_rps)
    return times.under_load(slo_ms, rate_rps), sample

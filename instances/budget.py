"""Latency budget: the largest GPU time at which a slot satisfies an SLO rule."""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats
from instances.errors import InputError


class SloRule(StrEnum):
    """Rules that convert an SLO into a latency budget.

    ``half-slo``: a batch is dispatched when full or after SLO/2 (iGniter, equations 13 and 14). ``assembly``: requests
    arrive evenly and are served first come first served in full batches (InSS, equation 3). ``duty-cycle``: a batch of
    up to b runs every D ms (Nexus, gpulet). ``p99``: the simulated P99 under Poisson arrivals is within the SLO.
    ``attainment``: under random arrivals, a given fraction of the requests is served within the SLO. Requests that
    would be late are dropped if the instance says so, and partial batches take their own times. The budget of this rule
    depends on the share (``View.budgets_ms``).
    """

    HALF_SLO = "half-slo"
    ASSEMBLY = "assembly"
    DUTY_CYCLE = "duty-cycle"
    P99 = "p99"
    ATTAINMENT = "attainment"

    @property
    def by_share(self) -> bool:
        """Whether the latency budget of a batch depends on its share of the GPU."""
        return self is SloRule.ATTAINMENT

    @property
    def takes_turns(self) -> bool:
        """Whether gpulets may have a duty cycle; not under rules that assume random arrivals."""
        return self not in (SloRule.P99, SloRule.ATTAINMENT)


def latency_budget_ms(
    rule: SloRule,
    slo_ms: ArrayLike,
    rate_rps: ArrayLike,
    batch: ArrayLike,
    transfer_ms: ArrayLike,
    exposed_ms: ArrayLike,
    latency_buffer: float = 1.0,
) -> Floats:
    """Return the latency budget: the largest ``t_gpu`` at which a slot of one workload satisfies ``rule``.

    All array arguments broadcast.

    Parameters
    ----------
    rule, slo_ms, rate_rps, batch
        SLO rule; SLO, rate and batch (at least 1) of the slot.
    transfer_ms
        Time of upload and feedback of a batch, ``x``.
    exposed_ms
        The part of ``x`` that delays the next batch.
    latency_buffer
        Factor on every predicted latency before it is tested.

    Returns
    -------
    numpy.ndarray
        Milliseconds; 0 or less if the batch is impossible.

    Raises
    ------
    InputError
        If the budget of the rule depends on the share.
    """
    slo, rate, size = np.asarray(slo_ms, float), np.asarray(rate_rps, float), np.asarray(batch, float)
    x, exposed = np.asarray(transfer_ms, float), np.asarray(exposed_ms, float)
    with np.errstate(over="ignore"):  # at a low rate, the time to collect a batch may exceed every float
        period_ms, assembly_ms = 1000.0 * size / rate, 1000.0 * (size - 1.0) / rate
    rule = SloRule(rule)  # a caller may pass the name of the rule as text
    if rule.by_share:
        raise InputError("slo_rule", f'is "{rule}": its budgets depend on the share, which this scheduler does not use')
    if rule is SloRule.HALF_SLO:
        # iGniter, equations 14 and 13: t_inf <= SLO / 2 and b / (t_gpu + feedback) >= R
        return np.minimum(slo / 2.0 / latency_buffer - x, period_ms / latency_buffer - exposed)
    if rule is SloRule.ASSEMBLY:
        # The first request of a batch waits for b - 1 others; the batch is then served within its own period.
        return np.minimum(slo - assembly_ms, period_ms) / latency_buffer - x
    if rule is SloRule.DUTY_CYCLE:
        # A duty cycle D must exist with t_inf <= D <= min(1000 b / r, SLO - t_inf).
        return np.minimum(slo / 2.0, period_ms) / latency_buffer - x
    from instances.queueing import p99_service_budget_ms  # loads numba; `import instances` does not

    service_ms = np.frompyfunc(p99_service_budget_ms, 3, 1)(slo, rate, size.astype(int))
    return np.asarray(service_ms, float) / latency_buffer - x

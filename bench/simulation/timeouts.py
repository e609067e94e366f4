"""Dispatch timeout of a partial batch, in a simulation and in a replay."""

from instances.budget import SloRule


def dispatch_timeout_ms(
    rule: SloRule, slo_ms: float, batch: int, rate_rps: float, cycle_ms: float | None, promised_ms: float
) -> float:
    """Return the time after which a partial batch is ready.

    The SLO rules ``half-slo`` and ``p99`` give half the SLO. The others give the time in which the planned rate fills
    the batch, as in the duty cycle of Nexus: ``min(1000 b / r, SLO - t_inf)``. In both cases the timeout leaves enough
    time for a full batch. With a duty cycle, a batch may wait for the other slots first: ``SLO - D``.

    Parameters
    ----------
    rule, slo_ms
        SLO rule of the instance, SLO of the workload.
    batch, rate_rps
        Batch and planned rate of the slot.
    cycle_ms
        Duty cycle of its gpulet, if it has one.
    promised_ms
        Time of a full batch, including the instance's latency buffer.
    """
    if cycle_ms is not None:
        return max(0.0, slo_ms - cycle_ms)
    half = rule in (SloRule.HALF_SLO, SloRule.P99)
    patience_ms = slo_ms / 2.0 if half else 1000.0 * batch / rate_rps
    return max(0.0, min(patience_ms, slo_ms - promised_ms))

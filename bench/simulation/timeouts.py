"""Waiting time of a batch that is not full, in a simulation and in a replay."""

from instances.budget import SloRule


def dispatch_timeout_ms(
    rule: SloRule, slo_ms: float, batch: int, rate_rps: float, cycle_ms: float | None, promised_ms: float
) -> float:
    """Return after how long a batch is ready that is not full.

    Half the SLO where the rule says so, under the others the time in which the planned rate fills the batch: the duty
    cycle of Nexus, ``min(1000 b / r, SLO - t_inf)``. In any case early enough for a full batch to be in time, and where
    slots take turns for one that has to wait for the others' first: ``SLO - D``.

    Parameters
    ----------
    rule, slo_ms
        Of the instance, of the workload.
    batch, rate_rps
        Of the slot.
    cycle_ms
        Duty cycle of its gpulet, if it has one.
    promised_ms
        What a full batch takes, with the instance's latency buffer.
    """
    if cycle_ms is not None:
        return max(0.0, slo_ms - cycle_ms)
    half = rule in (SloRule.HALF_SLO, SloRule.P99)
    patience_ms = slo_ms / 2.0 if half else 1000.0 * batch / rate_rps
    return max(0.0, min(patience_ms, slo_ms - promised_ms))

"""Rules of serving, in a simulation and in a replay: offered rates, dispatch of partial batches, late requests."""

from dataclasses import dataclass
from typing import Self

from instances import Instance, Objective, Plan
from instances.budget import SloRule
from instances.compiled import inlined


def offered_rps(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the offered rate of each workload, by id.

    Under ``cost`` and ``capacity``, all arriving requests are sent. Under ``goodput``, the planned rates are sent and
    further requests are rejected. Under ``scale``, every rate is multiplied by the scale that the plan reaches. A
    request of an application visits all stages, so all stages get the smallest offered rate among them.
    """
    planned: dict[str, float] = {workload.id: 0.0 for workload in instance.workloads}
    for _, _, slot in plan.slots():
        planned[slot.workload] += slot.rate_rps
    if instance.objective is Objective.GOODPUT:
        offered = {w.id: min(w.rate_rps, planned[w.id]) for w in instance.workloads}
    else:
        scale = 1.0
        if instance.objective is Objective.SCALE:
            scale = min((planned[w.id] / w.rate_rps for w in instance.workloads), default=0.0)
        offered = {w.id: w.rate_rps * scale for w in instance.workloads}
    for application in instance.applications:
        offered |= dict.fromkeys(application.stages, min(offered[stage] for stage in application.stages))
    return offered


def longest_request_s(instance: Instance) -> float:
    """Return the time that a request of any workload may take by its SLO: all its steps, if it is decoded."""
    return max((w.slo_ms * max(1, w.steps) for w in instance.workloads), default=0.0) / 1000.0


@dataclass(frozen=True, slots=True)
class DispatchRule:
    """Rule of an instance for starting batches that are not full.

    Attributes
    ----------
    slo_rule
        The instance's SLO rule.
    latency_buffer
        Factor on the time of a batch when it is compared with the SLO.
    """

    slo_rule: SloRule
    latency_buffer: float

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """Return the rule of ``instance``."""
        return cls(instance.slo_rule, instance.latency_buffer)

    def timeout_ms(self, batch: int, rate_rps: float, slo_ms: float, cycle_ms: float | None, full_ms: float) -> float:
        """Return the time after which a partial batch of a slot is ready, if a full batch takes ``full_ms``.

        With a duty cycle D, the timeout is ``SLO - D``, since a batch may first wait for the other slots. Otherwise it
        follows from the SLO rule. Under ``attainment``, partial batches start at once. Under ``half-slo`` and ``p99``,
        the timeout is half the SLO. Under the other rules it is the time in which the planned rate fills the batch, as
        in the duty cycle of Nexus: ``1000 b / r``. It is shortened where it leaves too little time for a full batch.
        """
        if cycle_ms is not None:
            return max(0.0, slo_ms - cycle_ms)
        if self.slo_rule is SloRule.ATTAINMENT:
            return 0.0
        waits_half_slo = self.slo_rule in (SloRule.HALF_SLO, SloRule.P99)
        patience_ms = slo_ms / 2.0 if waits_half_slo else 1000.0 * batch / rate_rps
        return max(0.0, min(patience_ms, slo_ms - self.latency_buffer * full_ms))


ROUNDING_MS = 1e-6
"""Tolerance of an SLO: latencies are differences of sums of floats and have rounding errors."""


@inlined
def would_be_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a predicted latency exceeds the SLO.

    The tolerance is half that of ``is_late``, so that a request that passes this check is not late by rounding alone.
    """
    return latency_ms > slo_ms + 0.5 * ROUNDING_MS


@inlined
def is_late(latency_ms: float, slo_ms: float) -> bool:
    """Return whether a latency exceeds its SLO."""
    return latency_ms > slo_ms + ROUNDING_MS

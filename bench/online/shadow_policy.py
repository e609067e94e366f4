"""iGniter's shadow processes: a standby process with a larger share for every workload (Sec. 4.2)."""

from dataclasses import replace
from typing import ClassVar

from bench.online.observation import Seen
from bench.online.policy import PeriodDecision
from bench.online.shares import Shares, with_gpulet
from instances import Instance, PlacedGpu, Plan

EXTRA_PCT = 10.0
"""Additional share of a shadow process, in percent of a GPU: the largest prediction error in the paper (Sec. 5.2)."""


class Shadow:
    """Policy that moves a workload that violates its SLO to its shadow process, which has a larger share.

    The policy computes no new plan. A workload has one shadow process, so it moves at most once. The paper checks the
    P99 latency of one second and checks again after half a second; here one check decides. If two workloads on one GPU
    need the free share, one of them moves, and the shadow of the other gets the rest.

    Parameters
    ----------
    instance
        The served instance.
    """

    period_s: ClassVar[float] = 1.0

    def __init__(self, instance: Instance) -> None:
        self._index, self._shares = instance.workload_index, Shares(instance, "shadow")
        self._moved: set[str] = set()

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Move workloads whose P99 latency in the period exceeds the SLO, at most one per GPU."""
        changed = plan
        for position, gpu in enumerate(plan.gpus):
            for number, gpulet in enumerate(gpu.gpulets):
                ids = {slot.workload for slot in gpulet.slots}
                if any(seen.violating[self._index[name]] for name in ids - self._moved):
                    larger = self._shares.grown(gpulet, gpu, self._extra_units(gpu))
                    if larger != gpulet:
                        changed = with_gpulet(changed, position, number, larger)
                        self._moved |= ids
                        break
        return PeriodDecision(None if changed == plan else changed)

    def standby(self, plan: Plan) -> Plan:
        """Return the plan of the shadow processes of all workloads that have not moved."""
        return replace(plan, gpus=tuple(self._shadows(gpu) for gpu in plan.gpus))

    def _shadows(self, gpu: PlacedGpu) -> PlacedGpu:
        waiting = [gpulet for gpulet in gpu.gpulets if not self._moved.issuperset(s.workload for s in gpulet.slots)]
        larger = (self._shares.grown(gpulet, gpu, self._extra_units(gpu)) for gpulet in waiting)
        return replace(gpu, gpulets=tuple(larger))

    def _extra_units(self, gpu: PlacedGpu) -> int:
        return round(EXTRA_PCT / 100.0 * self._shares.whole(gpu.type))

"""iGniter's shadow processes: one of a larger share stands by for every workload (Sec. 4.2)."""

from dataclasses import replace
from typing import ClassVar

from bench.online.observation import Seen
from bench.online.policy import PeriodDecision
from bench.online.shares import Shares, with_gpulet
from instances import Instance, PlacedGpu, Plan

EXTRA_PCT = 10.0
"""Of a GPU, what a shadow process has more: the largest prediction error that the paper saw (Sec. 5.2)."""


class Shadow:
    """Who violates its SLO moves at once to a process with more of the GPU, as far as there is more.

    The plan is never made anew, and a workload has one shadow: it moves once. The paper looks at the P99 latency of a
    second and then once more after half a second; here one look decides. Where two workloads on one GPU want what is
    left of it, one moves, and the other's shadow is what is left then.

    Parameters
    ----------
    instance
        That is served.
    """

    period_s: ClassVar[float] = 1.0

    def __init__(self, instance: Instance) -> None:
        self._index, self._shares = instance.workload_index, Shares(instance, "shadow")
        self._moved: set[str] = set()

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Move workloads whose P99 latency in the period is beyond the SLO, one on each GPU."""
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
        """Keep the shadow of every workload that has not moved."""
        return replace(plan, gpus=tuple(self._shadows(gpu) for gpu in plan.gpus))

    def _shadows(self, gpu: PlacedGpu) -> PlacedGpu:
        waiting = [gpulet for gpulet in gpu.gpulets if not self._moved.issuperset(s.workload for s in gpulet.slots)]
        larger = (self._shares.grown(gpulet, gpu, self._extra_units(gpu)) for gpulet in waiting)
        return replace(gpu, gpulets=tuple(larger))

    def _extra_units(self, gpu: PlacedGpu) -> int:
        return round(EXTRA_PCT / 100.0 * self._shares.whole(gpu.type))

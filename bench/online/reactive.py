"""Reactive tuning after GSLICE (Dhakal et al., SoCC 2020), following iGniter (Sec. 5.3) and gpulet (ATC'22)."""

import math
from dataclasses import replace
from typing import ClassVar

from bench.online.observation import Seen
from bench.online.policy import PeriodDecision
from bench.online.shares import Shares, with_gpulet
from instances import Gpulet, Instance, Plan
from instances.view import View

BAND = 0.1
"""Deviation from the target, as a part of it, within which a workload changes nothing (iGniter, Sec. 5.3)."""

STEP_PCT = 10.0
"""Largest change of a share at a time, in percent of a GPU; a choice of this bench, as the papers give no bound."""


class Reactive:
    """Policy that tunes the batch and share of each workload from its own measurements, without a performance model.

    The target time of a batch is half the SLO. The batch size changes as if its time were proportional to it, by at
    most a factor of two. The share grows if the workload violates its SLO or its batches are slower than the target.
    It shrinks if neither holds and the batches are faster than the target by more than the band. A gpulet with several
    slots or without served requests does not change. The number of GPUs does not change.

    Parameters
    ----------
    instance
        The served instance.
    """

    period_s: ClassVar[float] = 20.0

    def __init__(self, instance: Instance) -> None:
        self._instance, self._shares = instance, Shares(instance, "reactive")
        self._views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Tune the gpulets one after the other."""
        changed = plan
        for position, gpu in enumerate(plan.gpus):
            for number, gpulet in enumerate(gpu.gpulets):
                if len(gpulet.slots) == 1 and gpulet.duty_cycle_ms is None:
                    changed = with_gpulet(changed, position, number, self._tuned(changed, position, gpulet, seen))
        return PeriodDecision(None if changed == plan else changed)

    def standby(self, plan: Plan) -> None:
        """Return no standby plan."""

    def _tuned(self, plan: Plan, position: int, gpulet: Gpulet, seen: Seen) -> Gpulet:
        gpu, (slot,) = plan.gpus[position], gpulet.slots
        w = self._instance.workload_index[slot.workload]
        if seen.served[w] == 0:
            return gpulet
        view = self._views[gpu.type]
        target_ms = view.slo_ms[w] / 2.0
        batch_ms = float(seen.service_ms[w] / seen.served[w])
        slack = (target_ms - batch_ms) / target_ms
        batch = slot.batch
        if not 0.0 <= slack <= BAND:
            most = min(2 * batch, int(view.tables.max_batch[view.model[w]]))
            batch = min(max(math.floor(batch * target_ms / batch_ms), math.ceil(batch / 2)), most)
        step = round(STEP_PCT / 100.0 * self._shares.whole(gpu.type))
        if slack < 0.0 or seen.violating[w]:
            gpulet = self._shares.grown(gpulet, gpu, step)
        elif slack > BAND:
            gpulet = self._shares.shrunk(gpulet, gpu, step)
        return replace(gpulet, slots=(replace(slot, batch=batch),))

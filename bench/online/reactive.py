"""Reactive tuning after GSLICE (Dhakal et al., SoCC 2020), as iGniter (Sec. 5.3) and gpulet (ATC'22) describe it."""

import math
from dataclasses import replace
from typing import ClassVar

from bench.online.observation import Seen
from bench.online.policy import PeriodDecision
from bench.online.shares import Shares, with_gpulet
from instances import Gpulet, Instance, Plan
from instances.view import View

BAND = 0.1
"""Part of the target within which a workload leaves things as they are (iGniter, Sec. 5.3)."""

STEP_PCT = 10.0
"""Of a GPU, by how much a share changes at a time at most. Ours: the papers give no bound."""


class Reactive:
    """Every workload changes its own batch and share by what was measured of it; no model, no neighbours.

    The target is half the SLO for the time of a batch, and to serve what comes. A batch becomes larger or smaller as if
    its time were proportional to it, at most twice or half as large. A share grows where requests are late, dropped or
    left behind or batches too slow, and shrinks where none of that is so and batches are faster than the target by more
    than the band. A gpulet whose slots take turns, or which saw nobody, stays as it is. No GPU is added or given up.

    Parameters
    ----------
    instance
        That is served.
    """

    period_s: ClassVar[float] = 20.0

    def __init__(self, instance: Instance) -> None:
        self._instance, self._shares = instance, Shares(instance, "reactive")
        self._views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Let the gpulets tune themselves, one after the other."""
        changed = plan
        for position, gpu in enumerate(plan.gpus):
            for number, gpulet in enumerate(gpu.gpulets):
                if len(gpulet.slots) == 1 and gpulet.duty_cycle_ms is None:
                    changed = with_gpulet(changed, position, number, self._tuned(changed, position, gpulet, seen))
        return PeriodDecision(None if changed == plan else changed)

    def standby(self, plan: Plan) -> None:
        """Keep nothing ready."""

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

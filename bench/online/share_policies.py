"""Policies that change the shares of gpulets: iGniter's shadow processes and GSLICE's reactive tuning."""

import math
from dataclasses import replace
from typing import ClassVar

from bench.online.observation import Observation
from bench.online.policy import OnlinePolicy, PeriodDecision
from instances import Gpulet, InputError, Instance, Partition, PlacedGpu, Plan
from instances.tables import gpu_tables
from instances.view import View


class Shares:
    """Permitted shares of the GPUs of an instance without MIG; error messages name ``policy``."""

    def __init__(self, instance: Instance, policy: str) -> None:
        if instance.partition is Partition.MIG:
            raise InputError(
                f'policy "{policy}"', f"changes shares, which the MIG instances of {instance.name} do not permit"
            )
        tables = {pool.type.name: gpu_tables(pool.type, instance.performance_model) for pool in instance.gpus}
        self._units = {name: table.share_units for name, table in tables.items()}
        self._permitted = {name: [int(units) for units in table.permitted] for name, table in tables.items()}

    def grown(self, gpulet: Gpulet, gpu: PlacedGpu, percent: float) -> Gpulet:
        """Return the gpulet with a share larger by up to ``percent`` of its GPU, limited by the free share."""
        free_units = max(0, self._units[gpu.type] - gpu.share_units)
        most_units = gpulet.share_units + min(round(percent / 100.0 * self._units[gpu.type]), free_units)
        new_units = max((units for units in self._permitted[gpu.type] if units <= most_units), default=0)
        return replace(gpulet, share_units=max(gpulet.share_units, new_units))

    def shrunk(self, gpulet: Gpulet, gpu: PlacedGpu, percent: float) -> Gpulet:
        """Return the gpulet with a share smaller by up to ``percent`` of its GPU."""
        least_units = gpulet.share_units - round(percent / 100.0 * self._units[gpu.type])
        new_units = min(
            (units for units in self._permitted[gpu.type] if units >= least_units), default=gpulet.share_units
        )
        return replace(gpulet, share_units=min(gpulet.share_units, new_units))


def with_gpulet(plan: Plan, position: int, number: int, gpulet: Gpulet) -> Plan:
    """Return ``plan`` with gpulet ``number`` of GPU ``position`` replaced."""
    gpu = plan.gpus[position]
    changed = replace(gpu, gpulets=(*gpu.gpulets[:number], gpulet, *gpu.gpulets[number + 1 :]))
    return replace(plan, gpus=(*plan.gpus[:position], changed, *plan.gpus[position + 1 :]))


EXTRA_PCT = 10.0
"""Additional share of a shadow process, in percent of a GPU: the largest prediction error in the paper (Sec. 5.2)."""


class Shadow(OnlinePolicy):
    """Policy that moves a workload that violates its SLO to its shadow process, which has a larger share.

    The policy computes no new plan. A workload has one shadow process, so it moves at most once. The paper checks the
    P99 latency of one second and checks again after half a second; here one check decides. If two workloads on one GPU
    need the free share, one workload moves, and the shadow of the other workload gets the remaining free share.
    """

    period_s: ClassVar[float] = 1.0

    def __init__(self, instance: Instance) -> None:
        self._index, self._shares = instance.workload_index, Shares(instance, "shadow")
        self._moved: set[str] = set()

    def decide(self, plan: Plan, observation: Observation) -> PeriodDecision:
        """Move workloads that exceeded their SLO at P99 in the period, at most one workload per GPU."""
        changed = plan
        for position, gpu in enumerate(plan.gpus):
            for number, gpulet in enumerate(gpu.gpulets):
                ids = {slot.workload for slot in gpulet.slots}
                if any(observation.violating[self._index[name]] for name in ids - self._moved):
                    larger = self._shares.grown(gpulet, gpu, EXTRA_PCT)
                    if larger != gpulet:
                        changed = with_gpulet(changed, position, number, larger)
                        self._moved |= ids
                        break
        return PeriodDecision(None if changed == plan else changed)

    def standby(self, plan: Plan) -> Plan:
        """Return the plan of the shadow processes of all workloads that have not moved."""
        return replace(plan, gpus=tuple(self._shadows(gpu) for gpu in plan.gpus))

    def _shadows(self, gpu: PlacedGpu) -> PlacedGpu:
        unmoved = [
            gpulet for gpulet in gpu.gpulets if not self._moved.issuperset(slot.workload for slot in gpulet.slots)
        ]
        larger = (self._shares.grown(gpulet, gpu, EXTRA_PCT) for gpulet in unmoved)
        return replace(gpu, gpulets=tuple(larger))


TOLERANCE = 0.1
"""Fraction of the target time by which batches may be faster without a change (iGniter, Sec. 5.3)."""

STEP_PCT = 10.0
"""Largest change of a share at a time, in percent of a GPU; a choice of this bench, as the papers give no bound."""


class Reactive(OnlinePolicy):
    """Policy that tunes the batch and share of each workload from its own measurements, without a performance model.

    The target time of a batch is half the SLO. The batch size changes by at most a factor of two, as if the time of a
    batch were proportional to its size. The share grows if the workload violates its SLO or its batches are slower than
    the target. The share shrinks if the workload meets its SLO and its batches are faster than the target by more than
    ``TOLERANCE``. A gpulet with several slots or without served requests does not change. The number of GPUs does not
    change.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance, self._shares = instance, Shares(instance, "reactive")
        self._views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}

    def decide(self, plan: Plan, observation: Observation) -> PeriodDecision:
        """Tune the gpulets one after the other."""
        changed = plan
        for position, gpu in enumerate(plan.gpus):
            for number, gpulet in enumerate(gpu.gpulets):
                if len(gpulet.slots) == 1 and gpulet.duty_cycle_ms is None:
                    changed = with_gpulet(
                        changed, position, number, self._tuned(changed, position, gpulet, observation)
                    )
        return PeriodDecision(None if changed == plan else changed)

    def _tuned(self, plan: Plan, position: int, gpulet: Gpulet, observation: Observation) -> Gpulet:
        gpu, (slot,) = plan.gpus[position], gpulet.slots
        workload = self._instance.workload_index[slot.workload]
        if observation.served[workload] == 0:
            return gpulet
        view = self._views[gpu.type]
        target_ms = view.slo_ms[workload] / 2.0
        batch_ms = float(observation.service_ms[workload] / observation.served[workload])
        slack = (target_ms - batch_ms) / target_ms
        batch = slot.batch
        if not 0.0 <= slack <= TOLERANCE:
            largest_batch = min(2 * batch, int(view.tables.max_batch[view.model[workload]]))
            batch = min(max(math.floor(batch * target_ms / batch_ms), math.ceil(batch / 2)), largest_batch)
        if slack < 0.0 or observation.violating[workload]:
            gpulet = self._shares.grown(gpulet, gpu, STEP_PCT)
        elif slack > TOLERANCE:
            gpulet = self._shares.shrunk(gpulet, gpu, STEP_PCT)
        return replace(gpulet, slots=(replace(slot, batch=batch),))

"""Policies that change the shares of gpulets: iGniter's shadow processes and GSLICE's reactive tuning."""

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from bench.online.observation import Observation
from bench.online.policy import OnlinePolicy, PeriodDecision
from instances import Gpulet, InputError, Instance, Partition, PlacedGpu, Plan
from instances.gslice import BATCH_ROUNDS, granted_units, tuned_batch, tuned_share_pct
from instances.tables import gpu_tables
from instances.view import View


def refuse_mig(instance: Instance, policy: str) -> None:
    """Raise an ``InputError`` that names ``policy`` if the GPUs of the instance are cut into MIG instances."""
    if instance.partition is Partition.MIG:
        raise InputError(
            f'policy "{policy}"', f"changes shares, which the MIG instances of {instance.name} do not permit"
        )


class Shares:
    """Permitted shares of the GPUs of an instance without MIG."""

    def __init__(self, instance: Instance) -> None:
        tables = {pool.type.name: gpu_tables(pool.type, instance.performance_model) for pool in instance.gpus}
        self._units = {name: table.share_units for name, table in tables.items()}
        self._permitted = {name: [int(units) for units in table.permitted] for name, table in tables.items()}

    def grown(self, gpulet: Gpulet, gpu: PlacedGpu, percent: float) -> Gpulet:
        """Return the gpulet with a share larger by up to ``percent`` of its GPU, limited by the free share."""
        free_units = max(0, self._units[gpu.type] - gpu.share_units)
        most_units = gpulet.share_units + min(round(percent / 100.0 * self._units[gpu.type]), free_units)
        new_units = max((units for units in self._permitted[gpu.type] if units <= most_units), default=0)
        return replace(gpulet, share_units=max(gpulet.share_units, new_units))


def with_gpulet(plan: Plan, position: int, number: int, gpulet: Gpulet) -> Plan:
    """Return ``plan`` with gpulet ``number`` of GPU ``position`` replaced."""
    gpu = plan.gpus[position]
    changed = replace(gpu, gpulets=(*gpu.gpulets[:number], gpulet, *gpu.gpulets[number + 1 :]))
    return replace(plan, gpus=(*plan.gpus[:position], changed, *plan.gpus[position + 1 :]))


EXTRA_PCT = 10.0
"""Additional share of a shadow process, in percent of a GPU: the largest prediction error in the paper (Sec. 5.2)."""


class Shadow(OnlinePolicy):
    """Policy that moves a workload that violates its SLO to its shadow process, which has a larger share.

    Shadow processes stand by, so a workload moves at the end of the period in which its P99 latency exceeds its SLO.
    Each workload has one shadow process, keeps its batch, and moves at most once. The paper differs: it accumulates the
    latencies since the start (Sec. 4.2) and checks a second time after half a second (Sec. 5.3).

    Every shadow process may take up to ``EXTRA_PCT`` of the GPU from its free share, whatever the other shadow
    processes there take. At most one workload of a GPU moves in a period. After the move, the shadow processes of the
    other workloads have at most the share that is left; their restart takes no time.
    """

    period_s: ClassVar[float] = 1.0

    def __init__(self, instance: Instance) -> None:
        refuse_mig(instance, "shadow")
        self._index, self._shares = instance.workload_index, Shares(instance)
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
        shadows = (self._shares.grown(gpulet, gpu, EXTRA_PCT) for gpulet in unmoved)
        return replace(gpu, gpulets=tuple(shadows))


class Reactive(OnlinePolicy):
    """Policy that tunes the batch and share of each workload from its own measurements, by GSLICE's rule.

    The rule and its order are those of ``gslice+``: the batches of a GPU are tuned until none changes, at most five
    times; then every share is adjusted; then the batches again, and so on. The target latency is half the SLO. Free
    shares are ignored, so the shares of a GPU may exceed 100 %. A gpulet with several slots or without served requests
    does not change, and the number of GPUs never does.

    The latency is the measured mean time of a batch. The throughput is the rate at which batches of this time can
    follow each other, not the served rate, which cannot exceed the rate of arrivals. The policy decides nothing in the
    period after a change, because that period measured batches of both settings.
    """

    def __init__(self, instance: Instance) -> None:
        refuse_mig(instance, "reactive")
        self._instance = instance
        self._views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
        self._last_plan: Plan | None = None
        self._batch_rounds: Counter[int] = Counter()
        self._share_pct: dict[tuple[int, int], float] = {}

    def decide(self, plan: Plan, observation: Observation) -> PeriodDecision:
        """Tune the batches or the shares of every GPU."""
        last_plan, self._last_plan = self._last_plan, plan
        if last_plan is not None and last_plan != plan:
            return PeriodDecision()
        gpus = (self._tuned(position, gpu, observation) for position, gpu in enumerate(plan.gpus))
        changed = replace(plan, gpus=tuple(gpus))
        return PeriodDecision(None if changed == plan else changed)

    def _tuned(self, position: int, gpu: PlacedGpu, observation: Observation) -> PlacedGpu:
        """Return a GPU with tuned batches, or with adjusted shares after the last round of tuning batches."""
        batches_in_turn = self._batch_rounds[position] < BATCH_ROUNDS
        gpulets = []
        for number, gpulet in enumerate(gpu.gpulets):
            latency_ms = self._latency_ms(gpulet, observation)
            if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None or latency_ms == 0.0:
                gpulets.append(gpulet)
            elif batches_in_turn:
                gpulets.append(self._with_tuned_batch(gpu.type, gpulet, latency_ms))
            else:
                gpulets.append(self._with_adjusted_share((position, number), gpu.type, gpulet, latency_ms))
        tuned = replace(gpu, gpulets=tuple(gpulets))
        if not batches_in_turn:
            self._batch_rounds[position] = 0
        else:
            self._batch_rounds[position] = BATCH_ROUNDS if tuned == gpu else self._batch_rounds[position] + 1
        return tuned

    def _latency_ms(self, gpulet: Gpulet, observation: Observation) -> float:
        """Return the mean time of the batches of a gpulet's workload; 0 without served requests."""
        workload = self._instance.workload_index[gpulet.slots[0].workload]
        return float(observation.service_ms[workload] / max(1, observation.served[workload]))

    def _with_tuned_batch(self, gpu: str, gpulet: Gpulet, latency_ms: float) -> Gpulet:
        view, (slot,) = self._views[gpu], gpulet.slots
        workload = self._instance.workload_index[slot.workload]
        largest_batch = int(view.tables.max_batch[view.model[workload]])
        batch = tuned_batch(slot.batch, latency_ms, float(view.slo_ms[workload]) / 2.0, largest_batch)
        return replace(gpulet, slots=(replace(slot, batch=batch),))

    def _with_adjusted_share(self, key: tuple[int, int], gpu: str, gpulet: Gpulet, latency_ms: float) -> Gpulet:
        """Return the gpulet with the share that MPS grants for its adjusted share, which is kept under ``key``."""
        view, (slot,) = self._views[gpu], gpulet.slots
        tables, workload = view.tables, self._instance.workload_index[slot.workload]
        model, batch, units = view.model[workload], slot.batch, gpulet.share_units
        # The next batch loads while this one runs, so batches follow each other faster than their latency.
        alone_ms = float(tables.scheduling_ms[model] + tables.active_ms[model, batch, units])
        transfer_ms, exposed_ms = float(tables.transfer_ms[model, batch]), float(tables.exposed_ms[model, batch])
        between_ms = latency_ms * (alone_ms + exposed_ms) / (alone_ms + transfer_ms)
        tuned_pct = tuned_share_pct(
            self._share_pct.get(key, 100.0 * units / tables.share_units),
            latency_ms,
            1000.0 * batch / between_ms,
            float(view.slo_ms[workload]) / 2.0,
            slot.rate_rps,
        )
        self._share_pct[key] = tuned_pct
        return replace(gpulet, share_units=granted_units(tuned_pct, tables.share_units, tables.permitted))

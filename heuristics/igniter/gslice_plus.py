"""GSLICE+: iGniter's version of GSLICE as a baseline (iGniter, Sec. 5.1), with separate tuning of every workload."""

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.igniter.igniter import IGniter
from heuristics.tiny import tiny_instance
from instances import Gpulet, Instance, Objective, PlacedGpu, Plan
from instances.interference import gpu_times_ms
from instances.view import View


@dataclass(frozen=True, slots=True)
class GslicePlus:
    """iGniter's placement, then rounds of self-tuning (GSLICE, Dhakal et al., SoCC 2020; as patched by iGniter).

    In every round, latency and throughput of every workload are observed beside its neighbours. The batch of a
    workload is multiplied by the ratio of target to observed latency. Its share changes by the larger relative
    difference of latency and throughput from their targets. Nothing changes within the band. The effect on the
    neighbours is ignored: shares may exceed 100 %, latency budgets are violated, and the judge reports this.

    Attributes
    ----------
    rounds
        Number of tuning rounds (iGniter, Sec. 5.3: the plan after five adjustments).
    band
        Tolerance around the target, as a fraction of it, within which a workload changes nothing.
    """

    no_services: ClassVar[str] = "it tunes by the latencies and throughputs of whole requests"
    name: ClassVar[str] = "gslice+"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY})
    own_model: ClassVar[bool] = True

    rounds: int = 5
    band: float = 0.1

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ValueError(f"rounds is {self.rounds}; expected at least 0")
        if self.band < 0.0:
            raise ValueError(f"band is {self.band:g}; expected at least 0")

    def warm(self) -> None:
        """Tune a tiny plan, which loads the compiled kernels."""
        for objective in self.objectives:
            self.schedule(tiny_instance(objective), Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Place by iGniter's algorithm, then tune."""
        outcome = IGniter(spend_spare=False).schedule(instance, run)
        if outcome.plan is None:
            return outcome
        views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
        gpus = tuple(self._tuned(views[gpu.type], gpu) for gpu in outcome.plan.gpus)
        return replace(outcome, plan=Plan(instance.name, gpus))

    def _tuned(self, view: View, gpu: PlacedGpu) -> PlacedGpu:
        for _ in range(self.rounds):
            latency_ms, throughput_rps = observed(view, gpu)
            gpulets = zip(gpu.gpulets, latency_ms, throughput_rps, strict=True)
            gpu = replace(gpu, gpulets=tuple(self._adjusted(view, *observation) for observation in gpulets))
        return gpu

    def _adjusted(self, view: View, gpulet: Gpulet, latency_ms: float, throughput_rps: float) -> Gpulet:
        """Return the gpulet with batch and share adjusted to its own observations."""
        (slot,) = gpulet.slots
        w = view.instance.workload_index[slot.workload]
        target_ms = view.slo_ms[w] / 2.0
        slack = (target_ms - latency_ms) / target_ms
        spare = (throughput_rps - slot.rate_rps) / slot.rate_rps
        batch, units = slot.batch, gpulet.share_units
        if not 0.0 <= slack <= self.band:
            largest_batch = int(view.tables.max_batch[view.model[w]])
            batch = min(max(ceil(batch * target_ms / latency_ms), 1), largest_batch)
        if not (0.0 <= slack <= self.band and 0.0 <= spare <= self.band):
            change = max(abs(target_ms - latency_ms) / latency_ms, abs(throughput_rps - slot.rate_rps) / throughput_rps)
            target_units = units * (1.0 + change if slack < 0.0 or spare < 0.0 else 1.0 - change)
            permitted = view.tables.permitted
            units = int(permitted[np.argmin(np.abs(permitted - target_units))])  # the nearest permitted share
        return replace(gpulet, share_units=units, slots=(replace(slot, batch=batch),))


def observed(view: View, gpu: PlacedGpu) -> tuple[list[float], list[float]]:
    """Return the latency and throughput of each gpulet of ``gpu`` beside the others, by the performance model."""
    slots = [gpulet.slots[0] for gpulet in gpu.gpulets]
    model = view.model[[view.instance.workload_index[slot.workload] for slot in slots]]
    batch = np.array([slot.batch for slot in slots], dtype=np.int64)
    units = np.array([gpulet.share_units for gpulet in gpu.gpulets], dtype=np.int64)
    times_ms = np.zeros(len(slots))
    gpu_times_ms(view.tables, model, batch, units, len(slots), times_ms)
    latency_ms = times_ms + view.tables.transfer_ms[model, batch]
    return latency_ms.tolist(), (1000.0 * batch / (times_ms + view.tables.exposed_ms[model, batch])).tolist()

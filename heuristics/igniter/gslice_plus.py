"""GSLICE+: iGniter's version of GSLICE as a baseline (iGniter, Sec. 5.1), with separate tuning of every workload."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.igniter.igniter import IGniter
from heuristics.tiny import tiny_instance
from instances import Instance, Objective, PlacedGpu, Plan
from instances.gslice import (
    BATCH_ROUNDS,
    START_BATCH,
    START_PCT,
    CutRule,
    granted_units,
    tuned_batch,
    tuned_share_pct,
)
from instances.interference import gpu_times_ms
from instances.view import View


@dataclass(frozen=True, slots=True)
class GslicePlus:
    """iGniter's placement, then self-tuning of every workload (GSLICE, Dhakal et al., SoCC 2020; patched by iGniter).

    The loop is that of the authors' code (``Profile/tools/gslice.py`` of icloud-ecnu/igniter, function ``gslice``).
    Every workload starts with batch 1 and 30 % of its GPU. The batches of a GPU are tuned until none changes, at most
    five times. Then every share is adjusted once. This is repeated ``rounds`` times or until no share changes, and
    batches are tuned a last time. A workload sees only its own latency and throughput beside its neighbours. So shares
    may exceed 100 %, latency budgets are violated, and the judge reports this. Between adjustments a share is kept
    unrounded, as in the code; MPS rounds it down for the process.

    Attributes
    ----------
    rounds
        Largest number of adjustments of the shares (iGniter, Sec. 5.3: the plan after five). 0 is the start: nothing is
        tuned.
    band
        Fraction of a target by which a workload may be better without a change.
    cut
        Which of latency and throughput must be better than its target by the band before a share falls. ``any``: one
        of them (the authors' code). ``latency``: the latency (Sec. 5.3, the example of W10). ``both``: both of them.
    """

    no_services: ClassVar[str] = "it tunes by the latencies and throughputs of whole requests"
    name: ClassVar[str] = "gslice+"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY})
    own_model: ClassVar[bool] = True

    rounds: int = 5
    band: float = 0.1
    cut: CutRule = CutRule.ANY

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ValueError(f"rounds is {self.rounds}; expected at least 0")
        if self.band < 0.0:
            raise ValueError(f"band is {self.band:g}; expected at least 0")

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels by tuning a tiny plan."""
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
        """Return the GPU with tuned batches and shares."""
        batches, shares_pct = [START_BATCH] * len(gpu.gpulets), [START_PCT] * len(gpu.gpulets)
        if self.rounds == 0:
            return _resized(view, gpu, batches, shares_pct)
        for _ in range(self.rounds):
            batches = self._with_tuned_batches(view, gpu, batches, shares_pct)
            adjusted_pct = self._adjusted_shares(view, gpu, batches, shares_pct)
            if adjusted_pct == shares_pct:
                break
            shares_pct = adjusted_pct
        batches = self._with_tuned_batches(view, gpu, batches, shares_pct)
        return _resized(view, gpu, batches, shares_pct)

    def _with_tuned_batches(self, view: View, gpu: PlacedGpu, batches: list[int], shares_pct: list[float]) -> list[int]:
        """Return the batches after ``BATCH_ROUNDS`` rounds of tuning, or after the first round without a change."""
        workloads = _workloads(view, gpu)
        for _ in range(BATCH_ROUNDS):
            latency_ms, _ = observed(view, _resized(view, gpu, batches, shares_pct))
            new_batches = [
                tuned_batch(
                    batch, ms, float(view.slo_ms[w]) / 2.0, int(view.tables.max_batch[view.model[w]]), self.band
                )
                for w, batch, ms in zip(workloads, batches, latency_ms, strict=True)
            ]
            if new_batches == batches:
                break
            batches = new_batches
        return batches

    def _adjusted_shares(self, view: View, gpu: PlacedGpu, batches: list[int], shares_pct: list[float]) -> list[float]:
        """Return the shares, in percent, after one adjustment of each."""
        latency_ms, throughput_rps = observed(view, _resized(view, gpu, batches, shares_pct))
        rates_rps = [gpulet.slots[0].rate_rps for gpulet in gpu.gpulets]
        return [
            tuned_share_pct(share_pct, ms, rps, float(view.slo_ms[w]) / 2.0, rate_rps, self.band, self.cut)
            for w, share_pct, ms, rps, rate_rps in zip(
                _workloads(view, gpu), shares_pct, latency_ms, throughput_rps, rates_rps, strict=True
            )
        ]


def _workloads(view: View, gpu: PlacedGpu) -> list[int]:
    """Return the position of each gpulet's workload in the instance."""
    return [view.instance.workload_index[gpulet.slots[0].workload] for gpulet in gpu.gpulets]


def _resized(view: View, gpu: PlacedGpu, batches: list[int], shares_pct: list[float]) -> PlacedGpu:
    """Return the GPU with other batches, and with the shares that MPS grants for ``shares_pct``."""
    tables = view.tables
    gpulets = (
        replace(
            gpulet,
            share_units=granted_units(share_pct, tables.share_units, tables.permitted),
            slots=(replace(gpulet.slots[0], batch=batch),),
        )
        for gpulet, batch, share_pct in zip(gpu.gpulets, batches, shares_pct, strict=True)
    )
    return replace(gpu, gpulets=tuple(gpulets))


def observed(view: View, gpu: PlacedGpu) -> tuple[list[float], list[float]]:
    """Return the latency and throughput of each gpulet of ``gpu`` beside the others, by the performance model."""
    slots = [gpulet.slots[0] for gpulet in gpu.gpulets]
    model = view.model[_workloads(view, gpu)]
    batch = np.array([slot.batch for slot in slots], dtype=np.int64)
    units = np.array([gpulet.share_units for gpulet in gpu.gpulets], dtype=np.int64)
    times_ms = np.zeros(len(slots))
    gpu_times_ms(view.tables, model, batch, units, len(slots), times_ms)
    latency_ms = times_ms + view.tables.transfer_ms[model, batch]
    return latency_ms.tolist(), (1000.0 * batch / (times_ms + view.tables.exposed_ms[model, batch])).tolist()

"""Time sharing as in the published code of gpulet: its incremental scheduler, restricted to whole GPUs.

The authors' baseline for time sharing is a setting of their own scheduler (github.com/casys-kaist/glet, without
partitions), not squishy bin packing. The order, the limits and the integer arithmetic below are those of that code.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from heuristics.gpulet.state import Gpulets, times_by_batch_ms
from instances.arrays import Floats
from instances.view import View

NEGLIGIBLE_RPS = 15
"""Unserved rate that the code ignores."""

MOST_MODELS = 3
"""Largest number of models that take turns on a GPU (``Max Model`` in the code's settings)."""

LOW_RATE_FACTOR = 1.1
"""Factor on the rate of a workload so rare that no batch is collected within its SLO (``Latency Ratio``)."""


@dataclass(slots=True)
class _Turn:
    """Turn of a workload on a GPU: its batch, the rate for which it was planned, and the rate that it serves."""

    workload: int
    batch: int
    rate_rps: int
    served_rps: float


@dataclass(slots=True)
class _SharedGpu:
    """GPU with its duty cycle, the busy fraction of the cycle, and the turns in it."""

    cycle_ms: float
    busy: float
    turns: list[_Turn]

    @property
    def may_take_turns(self) -> bool:
        """Whether the GPU has time left and fewer models than are permitted."""
        return self.busy < 1.0 and len(self.turns) < MOST_MODELS


def share_in_time(view: View, gpus: int) -> Gpulets | None:
    """Serve all workloads on ``gpus`` whole GPUs as the published code does; return ``None`` if that fails.

    Workloads are placed by rate times SLO, ascending. A workload fills GPUs of its own: saturated ones at the largest
    batch with ``2 t_inf <= SLO``, then one at the largest batch that is collected and served within the SLO. A rate
    that no free GPU serves joins the busiest GPU on which the cycle and all batches together fit into every SLO.

    The code rounds rates, cycles and batches down, and ignores up to 15 unserved requests per second. Its plans may
    therefore serve less than the rates, and the judge reports this.
    """
    gpulets = Gpulets.undivided(view, gpus, interference=True)
    rates_rps = view.rate_rps.astype(np.int64).tolist()
    workloads = [
        _Workload(w, float(view.slo_ms[w]), times_ms)
        for w, times_ms in enumerate(times_by_batch_ms(view, gpulets, view.tables.share_units))
    ]
    nodes: list[_SharedGpu] = []
    for w in sorted(range(len(workloads)), key=lambda w: (rates_rps[w] * view.slo_ms[w], -w)):
        if not _Placement(view, workloads, nodes, gpus).place(workloads[w], rates_rps[w]):
            return None
    for i, node in enumerate(nodes):
        gpulets.slots[2 * i], gpulets.cycle_ms[2 * i] = len(node.turns), node.cycle_ms
        for s, turn in enumerate(node.turns):
            gpulets.workload[2 * i, s], gpulets.batch[2 * i, s] = turn.workload, turn.batch
            gpulets.rate_rps[2 * i, s] = turn.served_rps
    return gpulets


@dataclass(frozen=True, slots=True)
class _Workload:
    """Workload with its position in the instance, its SLO, and ``t_inf`` by batch on a whole GPU.

    Entry 0 of the times is infinite.
    """

    number: int
    slo_ms: float
    times_ms: Floats

    def saturating_batch(self) -> int:
        """Return the largest batch with ``2 t_inf <= SLO``; 1 if there is none."""
        return max(1, _last(2.0 * self.times_ms <= self.slo_ms))

    def saturated_rps(self) -> float:
        """Return the rate of a GPU that serves one saturating batch after the other."""
        batch = self.saturating_batch()
        return 1000.0 * batch / float(self.times_ms[batch])

    def residual_batch(self, rate_rps: int) -> tuple[int, int]:
        """Return the largest batch that is collected and served within the SLO, and the rate for which it is planned.

        If a request arrives more rarely than once per SLO, the batch is 1 and the rate is raised. The batch is 0 if no
        batch is possible.
        """
        batches = np.arange(len(self.times_ms))
        batch = _last(self.times_ms + 1000.0 * batches / rate_rps <= self.slo_ms)
        single_ms = float(self.times_ms[1])
        if batch == 0 and single_ms < 1000.0 / rate_rps and single_ms < self.slo_ms:
            return 1, int(1000.0 / (self.slo_ms - single_ms) * LOW_RATE_FACTOR)
        return batch, rate_rps

    def saturated_node(self, rate_rps: int) -> _SharedGpu:
        """Return a GPU that is filled by this workload."""
        batch = self.saturating_batch()
        turn = _Turn(self.number, batch, rate_rps, self.saturated_rps())
        return _SharedGpu(float(self.times_ms[batch]), 1.0, [turn])

    def residual_node(self, rate_rps: int, cycle_covers_batch: bool = False) -> _SharedGpu | None:
        """Return the GPU of a rate below saturation, or ``None`` if no batch is possible.

        With ``cycle_covers_batch``, the cycle is at least as long as the inference of the batch.
        """
        batch, planned_rps = self.residual_batch(rate_rps)
        if batch == 0:
            return None
        time_ms = float(self.times_ms[batch])
        cycle_ms = 1000.0 * batch / planned_rps
        if cycle_covers_batch:
            cycle_ms = max(cycle_ms, time_ms)
        return _SharedGpu(
            cycle_ms, time_ms / cycle_ms, [_Turn(self.number, batch, planned_rps, 1000.0 * batch / cycle_ms)]
        )


def _last(possible: np.ndarray) -> int:
    """Return the last true position, 0 if none is true."""
    positions = np.flatnonzero(possible)
    return int(positions[-1]) if len(positions) else 0


@dataclass(frozen=True, slots=True)
class _Placement:
    """Placement of one workload after another on ``gpus`` GPUs; ``nodes`` are the GPUs in use."""

    view: View
    workloads: list[_Workload]
    nodes: list[_SharedGpu]
    gpus: int

    def place(self, workload: _Workload, rate_rps: int) -> bool:
        """Serve a workload; return whether at most a negligible rate remains."""
        dedicated_gpus = self._dedicated_gpus(workload, rate_rps)
        unserved_rps = rate_rps
        if dedicated_gpus is not None and len(dedicated_gpus) <= self.gpus - len(self.nodes):
            for node in dedicated_gpus:
                self.nodes.append(node)
                unserved_rps = int(unserved_rps - node.turns[0].served_rps)
            if unserved_rps <= NEGLIGIBLE_RPS:
                return True
        unserved_rps = self._use_free_gpus(workload, unserved_rps)
        unserved_rps = self._merge_residual_rates(workload, unserved_rps)
        return unserved_rps <= NEGLIGIBLE_RPS or self._take_turns(workload, unserved_rps)

    def _dedicated_gpus(self, workload: _Workload, rate_rps: int) -> list[_SharedGpu] | None:
        """Return the GPUs that a workload needs for itself, or ``None`` if one of them would be late."""
        nodes: list[_SharedGpu] = []
        while rate_rps > NEGLIGIBLE_RPS:
            saturated = workload.saturated_rps() < rate_rps
            node = (
                workload.saturated_node(rate_rps)
                if saturated
                else workload.residual_node(rate_rps, cycle_covers_batch=True)
            )
            if node is None or node.cycle_ms + float(workload.times_ms[node.turns[0].batch]) > workload.slo_ms:
                return None
            nodes.append(node)
            rate_rps = int(rate_rps - workload.saturated_rps()) if saturated else 0
        return nodes

    def _use_free_gpus(self, workload: _Workload, unserved_rps: int) -> int:
        """Use the free GPUs for an unserved rate; return what is left of it."""
        while unserved_rps > NEGLIGIBLE_RPS and len(self.nodes) < self.gpus:
            if workload.saturated_rps() <= unserved_rps:
                self.nodes.append(workload.saturated_node(unserved_rps))
                unserved_rps = int(unserved_rps - workload.saturated_rps())
                continue
            node = workload.residual_node(unserved_rps)
            if node is None:
                break
            self.nodes.append(node)
            unserved_rps = 0
        return unserved_rps

    def _merge_residual_rates(self, workload: _Workload, unserved_rps: int) -> int:
        """Serve all residual rates of a workload on one GPU if that is possible; return the unserved rate."""
        residual_nodes = [
            node
            for node in self.nodes
            if node.busy < 1.0 and len(node.turns) == 1 and node.turns[0].workload == workload.number
        ]
        rate_rps = int(unserved_rps + sum(node.turns[0].served_rps for node in residual_nodes))
        nothing_to_merge = not residual_nodes or (len(residual_nodes) == 1 and rate_rps < NEGLIGIBLE_RPS)
        if nothing_to_merge or workload.saturated_rps() < rate_rps:
            return unserved_rps
        merged_ids = {id(node) for node in residual_nodes}
        self.nodes[:] = [node for node in self.nodes if id(node) not in merged_ids]
        node = workload.residual_node(rate_rps)
        if node is None:
            return unserved_rps
        self.nodes.append(node)
        return 0

    def _take_turns(self, workload: _Workload, unserved_rps: int) -> bool:
        """Serve a rate in turns on GPUs in use, the busiest first; return whether at most a negligible rate remains."""
        candidates = sorted((node for node in self.nodes if node.may_take_turns), key=lambda node: -node.busy)
        while unserved_rps > NEGLIGIBLE_RPS:
            served = (self._add_turn(workload, unserved_rps, node) for node in candidates)
            served_rps = next((rate_rps for rate_rps in served if rate_rps is not None), None)
            if served_rps is None:
                return False
            unserved_rps = max(0, int(unserved_rps - served_rps))
        return True

    def _add_turn(self, workload: _Workload, rate_rps: int, node: _SharedGpu) -> float | None:
        """Give a workload a turn on a GPU; return the rate served, or ``None`` if impossible.

        The largest batch is taken that is collected within the present cycle and for which the GPU has time left. The
        time in which this batch is collected, in whole milliseconds, is the new cycle. All batches together have to fit
        into the cycle, and the cycle and all batches together into every SLO.
        """
        if any(turn.workload == workload.number for turn in node.turns) or node.busy >= 1.0:
            return None
        largest = min(len(workload.times_ms) - 1, int(node.cycle_ms * (rate_rps / 1000.0)))
        for batch in range(largest, 0, -1):
            cycle_ms, time_ms = int(1000.0 * batch / rate_rps), float(workload.times_ms[batch])
            if cycle_ms > 0 and cycle_ms + time_ms < workload.slo_ms and time_ms / cycle_ms < 1.0 - node.busy:
                break
        else:
            return None
        if cycle_ms > node.cycle_ms:
            return None
        turns = [_Turn(workload.number, batch, rate_rps, 1000.0 * batch / cycle_ms)]
        for turn in node.turns:
            largest = len(self.workloads[turn.workload].times_ms) - 1
            collected = min(largest, max(1, int(cycle_ms / (1000.0 / turn.rate_rps))))
            turns.append(_Turn(turn.workload, collected, turn.rate_rps, 1000.0 * collected / cycle_ms))
        all_ms = sum(float(self.workloads[turn.workload].times_ms[turn.batch]) for turn in turns)
        shortest_slo_ms = min(self.workloads[turn.workload].slo_ms for turn in turns)
        if all_ms > cycle_ms or all_ms + cycle_ms > shortest_slo_ms or not self._fit_into_memory(turns):
            return None
        node.cycle_ms, node.busy, node.turns = float(cycle_ms), all_ms / cycle_ms, turns
        return turns[0].served_rps

    def _fit_into_memory(self, turns: Iterable[_Turn]) -> bool:
        tables = self.view.tables
        used_mib = sum(float(tables.memory_mib[self.view.model[turn.workload], turn.batch]) for turn in turns)
        return used_mib <= tables.memory_limit_mib

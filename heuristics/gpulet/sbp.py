"""Squishy bin packing of Nexus: GPUs in turns, whole or halved (Shen et al., SOSP'19; gpulet ATC'22, Sec. 2.2, 3)."""

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import ClassVar

import numpy as np

from heuristics.gpulet.pools import CuttingScheduler
from heuristics.gpulet.state import MOST_SLOTS, SLACK, Gpulets, times_by_batch_ms
from heuristics.gpulet.time_sharing import share_in_time
from instances.arrays import Floats
from instances.view import View


class SbpVariant(StrEnum):
    """Source of the rule by which residual workloads share a GPU in time."""

    ATC22 = "atc22"
    NEXUS = "nexus"
    GLET_CODE = "glet-code"


class Rest(StrEnum):
    """Time in which a batch of a residual rate is collected; see ``SquishyBinPacking.rest``."""

    BATCH = "batch"
    WAIT = "wait"


@dataclass(slots=True)
class _GpuNode:
    """GPU or half of one: its duty cycle, and the (workload, batch, rate) of each session (slot) on it."""

    cycle_ms: float
    sessions: list[tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class SquishyBinPacking(CuttingScheduler):
    """Squishy bin packing of Nexus: saturated GPUs first, then residual workloads that take turns.

    A workload fills as many GPUs as it saturates at its largest batch with ``2 t_inf <= SLO``. Its residual rate gets
    the largest batch that is collected and served within the SLO; this batch gives a duty cycle and an occupancy. If no
    batch is feasible because the residual is too small, it gets batches of 1 in the longest cycle within the SLO; the
    paper does not cover this case. Residuals then share GPUs: when two GPUs are merged, all batches shrink to the
    shorter of the two cycles. With ``halves`` false, GPUs are not shared spatially, so there is no interference.

    Attributes
    ----------
    variant
        ``atc22``: all pairs of GPUs with residuals are compared, and the pair that makes the busiest GPU is merged,
        until no pair fits (gpulet ATC'22, Sec. 2.2; it does not say which pair comes first). ``nexus``: residuals are
        placed by descending occupancy, each on the GPU that is then busiest, or on a new GPU (Shen et al., Alg. 1).
        ``glet-code``: the time sharing that gpulet's authors published instead, on whole GPUs
        (``heuristics.gpulet.time_sharing``); ``rest`` is not used.
    halves
        Split every GPU in two, and treat each half as a GPU with half the memory and half the network (gpulet ATC'22,
        Sec. 3.2, Fig. 5). Interference between the halves is ignored, as in the paper; the judge reports violations.
    rest
        Time in which the batch of a residual, the rest of a workload, is collected. ``batch``: ``b / r``, as in the
        paper. ``wait``: ``(b - 1) / r``, the time that its first request waits for the last.
    """

    name: ClassVar[str] = "sbp"

    halves: bool = False
    rest: Rest = Rest.BATCH
    variant: SbpVariant = SbpVariant.ATC22

    def __post_init__(self) -> None:
        if self.halves and self.variant is SbpVariant.GLET_CODE:
            raise ValueError(f"halves is true; the variant {self.variant} shares whole GPUs")

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        if self.variant is SbpVariant.GLET_CODE:
            return share_in_time(view, gpus)
        parts = 2 if self.halves else 1
        units = view.tables.share_units // parts
        if units not in view.tables.permitted:
            return None
        # Here ``interference`` only adds throttling: no gpulet has a neighbour when its times are taken.
        gpulets = Gpulets.undivided(view, gpus, interference=True)
        times_ms = times_by_batch_ms(view, gpulets, units)
        nodes, residual_nodes = [], []
        for w, rate in enumerate(view.rate_rps.tolist()):
            most_rps = float(gpulets.network_rps[w]) / parts
            filled, residual_rps = _saturated(times_ms[w], w, float(view.slo_ms[w]), rate, most_rps)
            nodes += filled
            if residual_rps > 0.0:
                node = residual(times_ms[w], w, float(view.slo_ms[w]), residual_rps, self.rest)
                if node is None:
                    return None
                residual_nodes.append(node)
        merge_nodes = _merged_in_pairs if self.variant is SbpVariant.ATC22 else _merged_one_by_one
        nodes += merge_nodes(view, times_ms, residual_nodes, parts)
        if len(nodes) > gpus * parts:
            return None
        _fill(gpulets, nodes, units, parts)
        return gpulets


def _saturated(
    times_ms: Floats, workload: int, slo_ms: float, rate_rps: float, most_rps: float
) -> tuple[list[_GpuNode], float]:
    """Return the GPUs that a workload saturates, each with at most ``most_rps``, and its residual rate."""
    feasible_batches = np.flatnonzero(2.0 * times_ms <= slo_ms * (1.0 - 4.0 * SLACK))
    if not len(feasible_batches):
        return [], rate_rps
    batch = int(feasible_batches[-1])
    cycle = float(times_ms[batch]) * (1.0 + 2.0 * SLACK)
    saturated_rps = min(1000.0 * batch / cycle, most_rps)
    count = int(rate_rps / saturated_rps)
    saturated = [_GpuNode(cycle, [(workload, batch, saturated_rps)]) for _ in range(count)]
    return saturated, max(0.0, rate_rps - count * saturated_rps)


def residual(
    times_ms: Floats, workload: int, slo_ms: float, rate_rps: float, rest: Rest = Rest.BATCH
) -> _GpuNode | None:
    """Return the GPU that serves a residual rate alone, at the largest batch collected and served within the SLO.

    The duty cycle is the time to collect the batch, shortened if necessary to what the SLO permits. The result is
    ``None`` if no batch is served within its own cycle.
    """
    for batch in range(len(times_ms) - 1, 0, -1):
        t_inf = float(times_ms[batch])
        awaited = batch - 1 if rest is Rest.WAIT else batch
        # Batch 1 is tried regardless of how long it takes to collect.
        if batch == 1 or 1000.0 * awaited / rate_rps + t_inf <= slo_ms:
            cycle = min(1000.0 * batch / rate_rps, slo_ms - t_inf) * (1.0 - SLACK)
            if 0.0 < t_inf <= cycle:
                return _GpuNode(cycle, [(workload, batch, rate_rps)])
    return None


def _merged_in_pairs(view: View, times_ms: list[Floats], nodes: list[_GpuNode], parts: int) -> list[_GpuNode]:
    """Return the GPUs after merging the pair that makes the busiest GPU, as long as a pair fits on one GPU."""
    nodes = list(nodes)
    while True:
        fitting = [
            (node, first, second)
            for first, second in combinations(range(len(nodes)), 2)
            if (node := merge(view, times_ms, nodes[first], nodes[second], parts)) is not None
        ]
        if not fitting:
            return nodes
        busiest, first, second = max(fitting, key=lambda candidate: _occupancy(candidate[0], times_ms))
        nodes = [node for position, node in enumerate(nodes) if position not in (first, second)] + [busiest]


def _merged_one_by_one(
    view: View, times_ms: list[Floats], residual_nodes: list[_GpuNode], parts: int
) -> list[_GpuNode]:
    """Return the GPUs on which residual workloads take turns; each joins the GPU that becomes busiest with it."""
    nodes: list[_GpuNode] = []
    for residual_node in sorted(residual_nodes, key=lambda node: -_occupancy(node, times_ms)):
        merged = [(merge(view, times_ms, node, residual_node, parts), position) for position, node in enumerate(nodes)]
        fitting = [(node, position) for node, position in merged if node is not None]
        if fitting:
            busiest, position = max(fitting, key=lambda candidate: _occupancy(candidate[0], times_ms))
            nodes[position] = busiest
        else:
            nodes.append(residual_node)
    return nodes


def _occupancy(node: _GpuNode, times_ms: list[Floats]) -> float:
    return sum(float(times_ms[w][b]) for w, b, _ in node.sessions) / node.cycle_ms


def merge(view: View, times_ms: list[Floats], first: _GpuNode, second: _GpuNode, parts: int = 1) -> _GpuNode | None:
    """Return one node with the sessions of both, or ``None`` if they do not fit.

    The node is one of the ``parts`` equal parts of a GPU. Its cycle is the shorter of the two, and its batches are
    those that are collected in this cycle.
    """
    cycle = min(first.cycle_ms, second.cycle_ms)
    sessions = [
        (w, max(1, math.ceil(rate * cycle / 1000.0 * (1.0 - SLACK))), rate)
        for w, _, rate in first.sessions + second.sessions
    ]
    merged = _GpuNode(cycle, sessions)
    memory_mib = sum(float(view.tables.memory_mib[view.model[w], b]) for w, b, _ in sessions)
    fits = _occupancy(merged, times_ms) <= 1.0 - SLACK and memory_mib <= view.tables.memory_limit_mib / parts
    fits = fits and parts * sum(rate / view.network_rps[w] for w, _, rate in sessions) <= 1.0
    return merged if fits and len(sessions) <= MOST_SLOTS else None


def _fill(gpulets: Gpulets, nodes: list[_GpuNode], units: int, parts: int) -> None:
    """Split the GPUs into ``parts`` of ``units`` each, and put a node on each part."""
    gpulets.units[::2], gpulets.units[1::2] = units, units if parts == 2 else 0
    for i, node in zip(range(0, len(gpulets.units), 2 // parts), nodes, strict=False):
        gpulets.slots[i], gpulets.cycle_ms[i] = len(node.sessions), node.cycle_ms
        for s, (workload, batch, rate) in enumerate(node.sessions):
            gpulets.workload[i, s], gpulets.batch[i, s], gpulets.rate_rps[i, s] = workload, batch, rate

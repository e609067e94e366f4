"""Positions of gpulets on one GPU type: least batch times, the best single workload, and permitted neighbours.

A GPU holds one gpulet, two, or more. The model of two is detailed: each neighbour has a range of L2 demand and least
DRAM and power demands. For more than two, each gpulet meets at least the sum of the least demands of the others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.tables import Tables

SLOTS = 3
"""Largest number of slots of a gpulet."""

MARGIN = 1e-8
"""Fraction by which every time is underestimated: more than the judge's tolerance on a rate."""


class GpuletPosition(NamedTuple):
    """Position of a gpulet: its share, and the interference there.

    Attributes
    ----------
    units
        Share of the gpulet.
    l2_ceiling_pct
        Largest L2 demand of any of its slots.
    residents
        Least number of gpulets on the GPU; from two on, interference applies.
    l2_pct, dram_pct, power_w
        Least demands of the other gpulets.
    """

    units: int
    l2_ceiling_pct: float
    residents: int
    l2_pct: float
    dram_pct: float
    power_w: float


class Worth(NamedTuple):
    """Worth of the rates that a GPU serves.

    Attributes
    ----------
    per_rps
        Worth of a unit of rate of each workload, shape (workloads,); workloads without any worth are left out.
    most_rps
        Largest rate of each workload that counts, shape (workloads,).
    step_rps
        Step of which planned rates are multiples, shape (workloads,); 0 permits any rate.
    throughput
        Worth of a request that a slot completes when busy all the time, whatever its workload. If it is above 0, any
        rate must count.
    """

    per_rps: Floats
    most_rps: Floats
    step_rps: Floats
    throughput: float


@compiled
def all_times_ms(tables: Tables, asked: DemandOnGpu, position: GpuletPosition) -> tuple[Floats, Floats, Floats]:
    """Return the least times of every batch at a position, shape (models, max batch + 1); infinite if infeasible.

    These are ``t_inf`` and the period, latency buffer included, and the time per batch of a slot that is always busy.
    Only models with a workload have times.
    """
    shape = tables.active_ms.shape[:2]
    times_ms, periods_ms, steady_ms = np.full(shape, np.inf), np.full(shape, np.inf), np.full(shape, np.inf)
    units, factor = position.units, asked.latency_buffer * (1.0 - MARGIN)
    done = np.zeros(len(times_ms), dtype=np.bool_)
    for m in asked.model:
        if done[m]:
            continue
        done[m] = True
        for b in range(1, tables.max_batch[m] + 1):
            l2_pct, power_w = tables.l2_pct[m, b, units], position.power_w + tables.power_w[m, b, units]
            if l2_pct <= position.l2_ceiling_pct and tables.memory_mib[m, b] <= tables.memory_limit_mib:
                t_gpu = gpu_time_ms(
                    tables, m, b, units, position.residents, position.l2_pct, position.dram_pct, power_w
                )
                after_ms = asked.overhead_ms[m, b]
                times_ms[m, b] = factor * (t_gpu + tables.transfer_ms[m, b])
                periods_ms[m, b] = factor * (t_gpu + after_ms)
                steady_ms[m, b] = (1.0 - MARGIN) * (t_gpu + tables.exposed_ms[m, b])
    return times_ms, periods_ms, steady_ms


@compiled
def first_look(
    tables: Tables, asked: DemandOnGpu, position: GpuletPosition, worth: Worth
) -> tuple[float, int, float, float, float]:
    """Find the best single workload for the gpulet, and an upper bound on the worth of turns.

    In a cycle of D ms each slot serves at most ``1000 b / D``, and D is at least the sum of all batch times. So a slot
    that serves r requests per second occupies the gpulet for at least the fraction ``r t / (1000 b)`` of the time. The
    fractions sum to at most 1: a fractional knapsack.

    Returns
    -------
    worth : float
        Largest worth of a single workload.
    workload : int
        That workload; -1 without one.
    rate_rps, throughput_rps : float
        Its rate, and the requests that it completes when busy all the time.
    limit : float
        Upper bound on the worth of turns.
    """
    per_rps, most_rps, throughput = worth.per_rps, worth.most_rps, worth.throughput
    times_ms, periods_ms, steady_ms = all_times_ms(tables, asked, position)
    best, best_workload, best_rps, best_throughput = 0.0, -1, 0.0, 0.0
    full_rps = np.zeros(len(per_rps))
    for w in range(len(per_rps)):
        if per_rps[w] + throughput <= 0.0:
            continue
        m = asked.model[w]
        for b in range(1, tables.max_batch[m] + 1):
            time_ms = times_ms[m, b]
            if time_ms <= asked.longest_ms[w, b]:
                rate, steady = min(most_rps[w], 1000.0 * b / periods_ms[m, b]), 1000.0 * b / steady_ms[m, b]
                value = rate * per_rps[w] + steady * throughput
                if value > best:
                    best, best_workload, best_rps, best_throughput = value, w, rate, steady
            if 2.0 * time_ms <= asked.slo_ms[w]:
                full_rps[w] = max(full_rps[w], 1000.0 * b / time_ms)
    limit, left = 0.0, 1.0
    for w in np.argsort(-full_rps * np.maximum(per_rps + throughput, 0.0)):
        if left <= 0.0 or full_rps[w] * (per_rps[w] + throughput) <= 0.0:
            break
        part = min(left, most_rps[w] / full_rps[w])
        limit += part * full_rps[w] * (per_rps[w] + throughput)
        left -= part
    return best, best_workload, best_rps, best_throughput, limit * (1.0 + MARGIN)


PAIR_NEIGHBOURS = 36
"""Approximate number of kinds of neighbours in a pair of gpulets: shares times ranges of L2 demand per share."""

CROWDS = (3, 4, 5, 6, 8, 12, 16, 24, 32)
"""Least number of gpulets of each crowd; its interference is the least possible at this number."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Kind of gpulet in a pair: its share, and a range of L2 demand; the demands are the least in the range."""

    units: int
    l2_ceiling_pct: float
    l2_pct: float
    dram_pct: float
    power_w: float


@dataclass(frozen=True, slots=True)
class Adjacency:
    """All gpulet positions on one GPU type, and the combinations that make a GPU.

    Attributes
    ----------
    positions
        All positions.
    alone
        Positions alone on the GPU, shape (shares,).
    beside
        Position of a gpulet of kind i beside one of kind j, -1 if both do not fit, shape (kinds, kinds).
    crowd
        Positions on a GPU of each crowd, which has at least a number of ``CROWDS`` gpulets, shape (crowds, shares).
    most_in_crowd
        Largest number of gpulets of each crowd, shape (crowds,).
    """

    positions: list[GpuletPosition]
    alone: Ints
    beside: Ints
    crowd: Ints
    most_in_crowd: Ints


def adjacency(tables: Tables, asked: DemandOnGpu) -> Adjacency:
    """List the positions of gpulets that can serve some workload."""
    able = {int(units): _servable(tables, asked, int(units)) for units in tables.permitted}
    shares = [units for units, able_here in able.items() if able_here.any()]
    positions: list[GpuletPosition] = []

    def position(units: int, residents: int, l2_ceiling: float, *least: float) -> int:
        positions.append(GpuletPosition(units, l2_ceiling, residents, *least))
        return len(positions) - 1

    alone = np.array([position(units, 1, np.inf, 0.0, 0.0, 0.0) for units in shares], dtype=np.int64)
    neighbours = [
        neighbour
        for units in shares
        for neighbour in _neighbours(tables, units, able[units], PAIR_NEIGHBOURS // len(shares))
    ]
    beside = np.full((len(neighbours), len(neighbours)), -1, dtype=np.int64)
    for i, own in enumerate(neighbours):
        for j, other in enumerate(neighbours):
            if own.units + other.units <= tables.share_units:
                beside[i, j] = position(own.units, 2, own.l2_ceiling_pct, other.l2_pct, other.dram_pct, other.power_w)
    most = min(tables.most_residents, tables.share_units // shares[0]) if shares else 0
    sizes = np.array([size for size in CROWDS if size <= most], dtype=np.int64)
    crowd = np.empty((len(sizes), len(shares)), dtype=np.int64)
    least = np.min([_least(tables, units, able[units]) for units in shares], axis=0, initial=np.inf)
    for c, size in enumerate(sizes.tolist()):
        crowd[c] = [position(units, size, np.inf, *((size - 1) * least)) for units in shares]
    return Adjacency(positions, alone, beside, crowd, np.append(sizes[1:] - 1, most)[: len(sizes)])


def _servable(tables: Tables, asked: DemandOnGpu, units: int) -> Flags:
    """Mark the batches that meet the SLO of some workload on an otherwise empty GPU, shape (models, max batch + 1)."""
    times_ms, _, _ = all_times_ms(tables, asked, GpuletPosition(units, np.inf, 1, 0.0, 0.0, 0.0))
    able = np.zeros(times_ms.shape, dtype=np.bool_)
    for model, longest_ms in zip(asked.model, asked.longest_ms, strict=True):
        able[model] |= times_ms[model] <= longest_ms
    return able


def _least(tables: Tables, units: int, able: Flags) -> tuple[float, float, float]:
    """Return the least L2, DRAM and power demand of the batches marked in ``able``."""
    model, batch = np.nonzero(able)
    at = (model, batch, units)
    return float(tables.l2_pct[at].min()), float(tables.dram_pct[at].min()), float(tables.power_w[at].min())


def _neighbours(tables: Tables, units: int, able: Flags, ranges: int) -> list[Neighbour]:
    """Divide the L2 demand of a share into ranges of equal width; ranges without a batch are left out."""
    l2_pct = tables.l2_pct[:, :, units]
    edges = np.linspace(l2_pct[able].min(), l2_pct[able].max(), max(1, ranges) + 1)
    number = np.clip(np.searchsorted(edges, l2_pct, side="right") - 1, 0, max(1, ranges) - 1)
    neighbours = []
    for n in np.unique(number[able]):
        within = able & (number == n)
        neighbours.append(Neighbour(units, float(l2_pct[within].max()), *_least(tables, units, within)))
    return neighbours

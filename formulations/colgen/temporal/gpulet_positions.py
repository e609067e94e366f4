"""Positions of gpulets on one GPU type: least batch times, the best single workload, and permitted neighbours.

A position is a share together with a lower bound on the interference from the other gpulets. A GPU holds one gpulet,
two, or more. For two, the bound is detailed: each neighbour has a range of L2 demand, and least DRAM and power demands.
For more than two, each gpulet meets at least the least demand of a gpulet, times the number of others.
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
"""Fraction by which every time is underestimated, so that no plan that the judge accepts beats a bound.

It is larger than the judge's tolerance on a rate.
"""


class GpuletPosition(NamedTuple):
    """Position of a gpulet: its share, and a lower bound on the interference there.

    Attributes
    ----------
    units
        Share of the gpulet.
    l2_ceiling_pct
        Upper limit on the L2 demand of each of its slots.
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
        Worth of one request per second of each workload, shape (workloads,). Workloads without any worth are not
        served.
    most_rps
        Largest rate of each workload that counts, shape (workloads,).
    step_rps
        Planned rates are multiples of this step, shape (workloads,); 0 permits any rate.
    throughput
        Worth of one request per second of throughput, the same for every workload. The throughput of a slot is what it
        completes if it is always busy. If this worth is above 0, ``most_rps`` must limit no rate.
    """

    per_rps: Floats
    most_rps: Floats
    step_rps: Floats
    throughput: float


@compiled
def all_times_ms(tables: Tables, demand: DemandOnGpu, position: GpuletPosition) -> tuple[Floats, Floats, Floats]:
    """Return the least times of every batch at a position, shape (models, max batch + 1); infinite if infeasible.

    Models without a workload have infinite times.

    Returns
    -------
    times_ms
        Inference latency, times the latency buffer.
    periods_ms
        Time from the start of a batch to that of the next, times the latency buffer.
    busy_ms
        Time per batch of a slot that is always busy, without the buffer.
    """
    shape = tables.active_ms.shape[:2]
    times_ms, periods_ms, busy_ms = np.full(shape, np.inf), np.full(shape, np.inf), np.full(shape, np.inf)
    units, factor = position.units, demand.latency_buffer * (1.0 - MARGIN)
    has_times = np.zeros(len(times_ms), dtype=np.bool_)
    for m in demand.model:
        if has_times[m]:
            continue
        has_times[m] = True
        for b in range(1, tables.max_batch[m] + 1):
            l2_pct, power_w = tables.l2_pct[m, b, units], position.power_w + tables.power_w[m, b, units]
            if l2_pct <= position.l2_ceiling_pct and tables.memory_mib[m, b] <= tables.memory_limit_mib:
                t_gpu = gpu_time_ms(
                    tables, m, b, units, position.residents, position.l2_pct, position.dram_pct, power_w
                )
                times_ms[m, b] = factor * (t_gpu + tables.transfer_ms[m, b])
                periods_ms[m, b] = factor * (t_gpu + demand.overhead_ms[m, b])
                busy_ms[m, b] = (1.0 - MARGIN) * (t_gpu + tables.exposed_ms[m, b])
    return times_ms, periods_ms, busy_ms


@compiled
def quick_bounds(
    tables: Tables, demand: DemandOnGpu, position: GpuletPosition, worth: Worth
) -> tuple[float, int, float, float, float]:
    """Find the best single workload for the gpulet, and an upper bound on the worth of several slots that take turns.

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
    times_ms, periods_ms, busy_ms = all_times_ms(tables, demand, position)
    best, best_workload, best_rps, best_throughput = 0.0, -1, 0.0, 0.0
    whole_gpulet_rps = np.zeros(len(per_rps))
    for w in range(len(per_rps)):
        if per_rps[w] + throughput <= 0.0:
            continue
        m = demand.model[w]
        for b in range(1, tables.max_batch[m] + 1):
            time_ms = times_ms[m, b]
            if time_ms <= demand.longest_ms[w, b]:
                rate, completed_rps = min(most_rps[w], 1000.0 * b / periods_ms[m, b]), 1000.0 * b / busy_ms[m, b]
                value = rate * per_rps[w] + completed_rps * throughput
                if value > best:
                    best, best_workload, best_rps, best_throughput = value, w, rate, completed_rps
            # In turns, a request may wait for a whole cycle, which takes at least as long as its own batch.
            if 2.0 * time_ms <= demand.slo_ms[w]:
                whole_gpulet_rps[w] = max(whole_gpulet_rps[w], 1000.0 * b / time_ms)
    limit, left = 0.0, 1.0
    for w in np.argsort(-whole_gpulet_rps * np.maximum(per_rps + throughput, 0.0)):
        if left <= 0.0 or whole_gpulet_rps[w] * (per_rps[w] + throughput) <= 0.0:
            break
        part = min(left, most_rps[w] / whole_gpulet_rps[w])
        limit += part * whole_gpulet_rps[w] * (per_rps[w] + throughput)
        left -= part
    return best, best_workload, best_rps, best_throughput, limit * (1.0 + MARGIN)


PAIR_NEIGHBOURS = 36
"""Approximate number of kinds of neighbours in a pair of gpulets: shares times ranges of L2 demand per share."""

LEAST_IN_CROWD = (3, 4, 5, 6, 8, 12, 16, 24, 32)
"""Smallest number of gpulets in each crowd.

A crowd stands for GPUs with at least this many gpulets and fewer than the next crowd. Its interference is that at its
smallest number.
"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Kind of gpulet in a pair: its share, the end of its range of L2 demand, and the least demands in the range."""

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
    crowds
        Positions in each crowd, shape (crowds, shares).
    most_in_crowd
        Largest number of gpulets in each crowd, shape (crowds,).
    """

    positions: list[GpuletPosition]
    alone: Ints
    beside: Ints
    crowds: Ints
    most_in_crowd: Ints


def adjacency(tables: Tables, demand: DemandOnGpu) -> Adjacency:
    """Return all gpulet positions with shares that can serve some workload, and how they combine to a GPU."""
    servable = {int(units): _servable(tables, demand, int(units)) for units in tables.permitted}
    shares = [units for units, batches in servable.items() if batches.any()]
    positions: list[GpuletPosition] = []

    def position(units: int, residents: int, l2_ceiling: float, *least_demands: float) -> int:
        positions.append(GpuletPosition(units, l2_ceiling, residents, *least_demands))
        return len(positions) - 1

    alone = np.array([position(units, 1, np.inf, 0.0, 0.0, 0.0) for units in shares], dtype=np.int64)
    neighbours = [
        neighbour
        for units in shares
        for neighbour in _neighbours(tables, units, servable[units], PAIR_NEIGHBOURS // len(shares))
    ]
    beside = np.full((len(neighbours), len(neighbours)), -1, dtype=np.int64)
    for i, first in enumerate(neighbours):
        for j, second in enumerate(neighbours):
            if first.units + second.units <= tables.share_units:
                demands = second.l2_pct, second.dram_pct, second.power_w
                beside[i, j] = position(first.units, 2, first.l2_ceiling_pct, *demands)
    most_gpulets = min(tables.most_residents, tables.share_units // shares[0]) if shares else 0
    sizes = np.array([size for size in LEAST_IN_CROWD if size <= most_gpulets], dtype=np.int64)
    crowds = np.empty((len(sizes), len(shares)), dtype=np.int64)
    least_demands = np.min([_least_demands(tables, units, servable[units]) for units in shares], axis=0, initial=np.inf)
    for c, size in enumerate(sizes.tolist()):
        crowds[c] = [position(units, size, np.inf, *((size - 1) * least_demands)) for units in shares]
    return Adjacency(positions, alone, beside, crowds, np.append(sizes[1:] - 1, most_gpulets)[: len(sizes)])


def _servable(tables: Tables, demand: DemandOnGpu, units: int) -> Flags:
    """Return which batches meet the SLO of some workload on an otherwise empty GPU, shape (models, max batch + 1)."""
    times_ms, _, _ = all_times_ms(tables, demand, GpuletPosition(units, np.inf, 1, 0.0, 0.0, 0.0))
    servable = np.zeros(times_ms.shape, dtype=np.bool_)
    for model, longest_ms in zip(demand.model, demand.longest_ms, strict=True):
        servable[model] |= times_ms[model] <= longest_ms
    return servable


def _least_demands(tables: Tables, units: int, batches: Flags) -> tuple[float, float, float]:
    """Return the least L2, DRAM and power demand of the marked ``batches``."""
    model, batch = np.nonzero(batches)
    demands = (tables.l2_pct, tables.dram_pct, tables.power_w)
    l2_pct, dram_pct, power_w = (float(demand[model, batch, units].min()) for demand in demands)
    return l2_pct, dram_pct, power_w


def _neighbours(tables: Tables, units: int, batches: Flags, ranges: int) -> list[Neighbour]:
    """Divide the L2 demands of the batches into ranges of equal width; return a neighbour for each that has a batch."""
    l2_pct = tables.l2_pct[:, :, units]
    edges = np.linspace(l2_pct[batches].min(), l2_pct[batches].max(), max(1, ranges) + 1)
    range_of = np.clip(np.searchsorted(edges, l2_pct, side="right") - 1, 0, max(1, ranges) - 1)
    neighbours = []
    for r in np.unique(range_of[batches]):
        in_range = batches & (range_of == r)
        neighbours.append(Neighbour(units, float(l2_pct[in_range].max()), *_least_demands(tables, units, in_range)))
    return neighbours

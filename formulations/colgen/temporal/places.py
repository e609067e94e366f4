"""Gpulet positions: the least time of batches there, and the best use by one workload alone."""

from typing import NamedTuple

import numpy as np
from numba import njit

from instances.arrays import Floats, Ints
from instances.interference import gpu_time_ms
from instances.tables import Tables

MARGIN = 1e-8
"""Fraction of every time that is forgiven: more than the judge's tolerance on a rate."""


class TypeDemand(NamedTuple):
    """Demands of the workloads on one GPU type.

    Attributes
    ----------
    model
        Row of each workload in the tables, shape (workloads,).
    slo_ms
        Latency SLO of each workload.
    latency_buffer
        Factor on every predicted latency.
    longest_part
        Fraction of the SLO that a batch may take if its workload has the gpulet alone, shape (max batch + 1,).
    loading_overlaps
        Whether such a gpulet loads the next batch while it executes one.
    """

    model: Ints
    slo_ms: Floats
    latency_buffer: float
    longest_part: Floats
    loading_overlaps: bool


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


class FirstLook(NamedTuple):
    """First estimate of a gpulet.

    Attributes
    ----------
    worth, workload, rate_rps
        Largest worth of a single workload in it, that workload and its rate; -1 without one.
    limit
        Upper bound on the worth of turns.
    """

    worth: float
    workload: int
    rate_rps: float
    limit: float


@njit(cache=True)
def batch_times_ms(
    tables: Tables, asked: TypeDemand, place: GpuletPosition, model: int, times_ms: Floats, periods_ms: Floats
) -> None:
    """Write the least ``t_inf`` and period of every batch of a model at a position, latency buffer included."""
    for b in range(1, len(times_ms)):
        times_ms[b] = periods_ms[b] = np.inf
        if (
            b <= tables.max_batch[model]
            and tables.l2_pct[model, b, place.units] <= place.l2_ceiling_pct
            and tables.memory_mib[model, b] <= tables.memory_limit_mib
        ):
            power_w = place.power_w + tables.power_w[model, b, place.units]
            t_gpu = gpu_time_ms(tables, model, b, place.units, place.residents, place.l2_pct, place.dram_pct, power_w)
            after_ms = tables.exposed_ms[model, b] if asked.loading_overlaps else tables.transfer_ms[model, b]
            factor = asked.latency_buffer * (1.0 - MARGIN)
            times_ms[b] = factor * (t_gpu + tables.transfer_ms[model, b])
            periods_ms[b] = factor * (t_gpu + after_ms)


@njit(cache=True)
def all_times_ms(tables: Tables, asked: TypeDemand, place: GpuletPosition) -> tuple[Floats, Floats]:
    """Return times and periods of every batch of every model with a workload, shape (models, max batch + 1)."""
    times_ms, periods_ms = np.full(tables.active_ms.shape[:2], np.inf), np.full(tables.active_ms.shape[:2], np.inf)
    done = np.zeros(len(times_ms), dtype=np.bool_)
    for model in asked.model:
        if not done[model]:
            batch_times_ms(tables, asked, place, model, times_ms[model], periods_ms[model])
            done[model] = True
    return times_ms, periods_ms


@njit(cache=True)
def first_look(tables: Tables, asked: TypeDemand, place: GpuletPosition, worth: Floats, most_rps: Floats) -> FirstLook:
    """Find the best single workload for the gpulet, and an upper bound on the worth of turns.

    In a cycle of D ms each slot serves at most ``1000 b / D``, and D is at least the sum of all batch times. So a slot
    that serves r requests per second occupies the gpulet for at least the fraction ``r t / (1000 b)`` of the time. The
    fractions sum to at most 1: a fractional knapsack.

    Parameters
    ----------
    tables, asked, place
        Tables of the GPU type, demands of its workloads, and the position.
    worth, most_rps
        Worth of a unit of rate of each workload, and the largest rate that counts.
    """
    times_ms, periods_ms = all_times_ms(tables, asked, place)
    best, best_workload, best_rps = 0.0, -1, 0.0
    full_rps = np.zeros(len(worth))
    for w in range(len(worth)):
        if worth[w] <= 0.0:
            continue
        m = asked.model[w]
        for b in range(1, tables.max_batch[m] + 1):
            time_ms = times_ms[m, b]
            if time_ms <= asked.longest_part[b] * asked.slo_ms[w]:
                rate = min(most_rps[w], 1000.0 * b / periods_ms[m, b])
                if rate * worth[w] > best:
                    best, best_workload, best_rps = rate * worth[w], w, rate
            if 2.0 * time_ms <= asked.slo_ms[w]:
                full_rps[w] = max(full_rps[w], 1000.0 * b / time_ms)
    limit, left = 0.0, 1.0
    for w in np.argsort(-full_rps * np.maximum(worth, 0.0)):
        if left <= 0.0 or full_rps[w] * worth[w] <= 0.0:
            break
        part = min(left, most_rps[w] / full_rps[w])
        limit += part * full_rps[w] * worth[w]
        left -= part
    return FirstLook(best, best_workload, best_rps, limit * (1.0 + MARGIN))

"""Gpulets while they are cut and filled: GPUs split in two, slots that take turns; by compiled kernels."""

from typing import NamedTuple

import numpy as np
from numba import njit

from instances.arrays import Floats, Ints
from instances.interference import gpu_time_ms
from instances.tables import Tables

SLACK = 1e-9
"""Part of every limit that is left free, so that no later rounding breaks it."""

MOST_SLOTS = 8
"""Slots of a gpulet, at most."""

SETTLING_ROUNDS = 8
"""Times two neighbours adapt their batches to each other before they are taken not to get along."""

Neighbour = tuple[int, float, float, float]
"""Who else is on the GPU: 1 or 0 gpulets, and the largest L2, DRAM and power demand of its slots."""


ALONE: Neighbour = (0, 0.0, 0.0, 0.0)


class GpuletTerms(NamedTuple):
    """What is asked for; arrays of shape (workloads,).

    Attributes
    ----------
    model
        Row of each workload in the tables.
    slo_ms
        Of each workload.
    latency_buffer
        Factor on every predicted latency.
    interference
        Whether neighbours count.
    alone_rps
        What each workload's own gpulet serves on an otherwise empty GPU, shape (workloads, share units + 1).
    """

    model: Ints
    slo_ms: Floats
    latency_buffer: float
    interference: bool
    alone_rps: Floats


class Gpulets(NamedTuple):
    """Gpulets 2g and 2g + 1 are those of GPU g; arrays of shape (gpulets,) and (gpulets, slots at most).

    Attributes
    ----------
    units
        Share; an undivided GPU has all of it in its first gpulet and none in its second.
    slots
        How many take turns.
    workload, batch, rate_rps
        Of each slot.
    cycle_ms
        Duty cycle.
    """

    units: Ints
    slots: Ints
    workload: Ints
    batch: Ints
    rate_rps: Floats
    cycle_ms: Floats

    @classmethod
    def undivided(cls, gpus: int, share_units: int) -> "Gpulets":
        """Return ``gpus`` whole GPUs that run nothing."""
        shape = (2 * gpus, MOST_SLOTS)
        units = np.zeros(2 * gpus, dtype=np.int64)
        units[::2] = share_units
        return cls(
            units,
            np.zeros(2 * gpus, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape),
            np.zeros(2 * gpus),
        )


@njit(cache=True)
def neighbour_of(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int) -> Neighbour:
    """Return what the other gpulet of the GPU of gpulet ``i`` shows it."""
    other = i ^ 1
    l2 = dram = power = 0.0
    if not terms.interference or gpulets.slots[other] == 0:
        return 0, l2, dram, power
    for s in range(gpulets.slots[other]):
        m, b, u = terms.model[gpulets.workload[other, s]], gpulets.batch[other, s], gpulets.units[other]
        l2 = max(l2, tables.l2_pct[m, b, u])
        dram = max(dram, tables.dram_pct[m, b, u])
        power = max(power, tables.power_w[m, b, u])
    return 1, l2, dram, power


@njit(cache=True)
def inference_ms(tables: Tables, terms: GpuletTerms, workload: int, batch: int, units: int, beside: Neighbour) -> float:
    """Return ``t_inf`` of a batch beside a neighbour, times the latency buffer; infinite if it is never possible."""
    m = terms.model[workload]
    if batch > tables.max_batch[m] or tables.memory_mib[m, batch] > tables.memory_limit_mib:
        return np.inf
    if terms.interference:
        own_power = tables.power_w[m, batch, units]
        t_gpu = gpu_time_ms(tables, m, batch, units, 1 + beside[0], beside[1], beside[2], beside[3] + own_power)
    else:
        t_gpu = tables.scheduling_ms[m] + tables.active_ms[m, batch, units]
    return terms.latency_buffer * (t_gpu + tables.transfer_ms[m, batch])


@njit(cache=True)
def capacity_rps(tables: Tables, terms: GpuletTerms, workload: int, units: int, beside: Neighbour) -> float:
    """Return the most that a gpulet of its own serves: every cycle as long as its batch, ``2 t_inf <= SLO``."""
    most = 0.0
    for batch in range(1, tables.max_batch[terms.model[workload]] + 1):
        t_inf = inference_ms(tables, terms, workload, batch, units, beside)
        if 2.0 * t_inf <= terms.slo_ms[workload] * (1.0 - 4.0 * SLACK):
            most = max(most, 1000.0 * batch / t_inf)
    return most * (1.0 - 2.0 * SLACK)


@njit(cache=True)
def alone_rps(tables: Tables, terms: GpuletTerms) -> Floats:
    """Return ``GpuletTerms.alone_rps``, whatever ``terms`` has there."""
    most = np.zeros((len(terms.model), tables.share_units + 1))
    for w in range(len(terms.model)):
        for units in tables.permitted:
            most[w, units] = capacity_rps(tables, terms, w, units, ALONE)
    return most


@njit(cache=True)
def load(terms: GpuletTerms, gpulets: Gpulets, i: int) -> float:
    """Return the part of its time that gpulet ``i`` is busy at least: beyond 1 its slots cannot take turns."""
    busy = 0.0
    for s in range(gpulets.slots[i]):
        busy += gpulets.rate_rps[i, s] / terms.alone_rps[gpulets.workload[i, s], gpulets.units[i]]
    return busy


@njit(cache=True)
def duty_cycle_ms(
    tables: Tables,
    terms: GpuletTerms,
    workload: Ints,
    rate_rps: Floats,
    count: int,
    units: int,
    beside: Neighbour,
    batch: Ints,
) -> float:
    """Return a duty cycle in which slots can take turns, and write their batches; 0 if there is none.

    In a cycle of D ms a slot collects ``b = ceil(r D / 1000)`` requests. All batches have to fit into the cycle, and
    each has to be done an SLO after its first request came: ``sum t_inf <= D``, ``D + t_inf <= SLO``. Between two
    cycles at which some batch grows the longest is the best; of those it takes the one that is least busy.

    Parameters
    ----------
    tables, terms
        Of the GPU type, and what is asked for.
    workload, rate_rps
        Of the slots; the first ``count`` entries are read.
    count, units
        Number of slots, and share of the gpulet.
    beside
        Who else is on the GPU.
    batch
        Overwritten.
    """
    shortest_slo = np.inf
    for s in range(count):
        shortest_slo = min(shortest_slo, terms.slo_ms[workload[s]])
    best_cycle, least_busy = 0.0, np.inf
    trial = np.empty(count, dtype=np.int64)
    for full in range(-1, count):  # the slot whose batch is just full at the end of the cycle; -1: none
        for size in range(1, 2 if full < 0 else tables.max_batch[terms.model[workload[full]]] + 1):
            cycle = shortest_slo if full < 0 else 1000.0 * size / rate_rps[full]
            if cycle > shortest_slo:
                break
            busy = 0.0
            for s in range(count):
                trial[s] = max(1, int(np.ceil(rate_rps[s] * cycle / 1000.0 * (1.0 - SLACK))))
                t_inf = inference_ms(tables, terms, workload[s], trial[s], units, beside)
                cycle = min(cycle, terms.slo_ms[workload[s]] * (1.0 - SLACK) - t_inf)
                busy += t_inf
            if cycle > 0.0 and busy <= cycle * (1.0 - SLACK) and busy / cycle < least_busy:
                best_cycle, least_busy = cycle, busy / cycle
                batch[:count] = trial
    return best_cycle


@njit(cache=True)
def cycles(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int) -> bool:
    """Whether the slots of gpulet ``i`` can take turns on an otherwise empty GPU."""
    batch = np.empty(MOST_SLOTS, dtype=np.int64)
    slots = (gpulets.workload[i], gpulets.rate_rps[i], gpulets.slots[i])
    return duty_cycle_ms(tables, terms, *slots, gpulets.units[i], ALONE, batch) > 0.0


@njit(cache=True)
def settle(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, i: int) -> bool:
    """Find batches and duty cycles for both gpulets of the GPU of ``i`` at the rates they serve.

    Returns
    -------
    bool
        Whether they get along; if not, batches and cycles are of no use.
    """
    memory_mib = 0.0
    trial = np.empty(MOST_SLOTS, dtype=np.int64)
    for _ in range(SETTLING_ROUNDS):
        changed = False
        memory_mib = 0.0
        for j in (i, i ^ 1):
            count = gpulets.slots[j]
            if count == 0:
                continue
            beside = neighbour_of(tables, terms, gpulets, j)
            gpulets.cycle_ms[j] = duty_cycle_ms(
                tables,
                terms,
                gpulets.workload[j],
                gpulets.rate_rps[j],
                count,
                gpulets.units[j],
                beside,
                trial,
            )
            if gpulets.cycle_ms[j] == 0.0:
                return False
            for s in range(count):
                changed |= gpulets.batch[j, s] != trial[s]
                gpulets.batch[j, s] = trial[s]
                memory_mib += tables.memory_mib[terms.model[gpulets.workload[j, s]], trial[s]]
        if not changed:
            return memory_mib <= tables.memory_limit_mib
    return False

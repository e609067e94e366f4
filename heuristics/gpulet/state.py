"""Gpulets during a search: GPUs split in two, slots that take turns, times and duty cycles; by compiled kernels."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled, kernel
from instances.interference import gpu_time_ms
from instances.tables import Tables
from instances.view import View

SLACK = 1e-9
"""Fraction of every limit that stays free, so that rounding does not violate it."""

MOST_SLOTS = 8
"""Largest number of slots of a gpulet."""

SETTLING_ROUNDS = 8
"""Rounds in which the batches of two neighbours are adapted to each other before they count as infeasible."""

Neighbour = tuple[int, float, float, float]
"""Other gpulet of a GPU: 1 if it has slots, else 0, and the largest L2, DRAM and power demand of its slots."""

ALONE: Neighbour = (0, 0.0, 0.0, 0.0)


class Gpulets(NamedTuple):
    """Gpulets of GPUs that are split in two, and the demands of the workloads on them.

    Gpulets 2g and 2g + 1 belong to GPU g. Arrays have shape (gpulets,) unless stated.

    Attributes
    ----------
    units
        Share; the first gpulet of an undivided GPU has all units, the second has none.
    slots
        Number of slots.
    workload, batch, rate_rps
        Workload, batch and rate of each slot, shape (gpulets, ``MOST_SLOTS``).
    cycle_ms
        Duty cycle; without meaning for a gpulet without slots.
    model, slo_ms
        Row of each workload in the tables, and its SLO, shape (workloads,).
    latency_buffer
        Factor on every predicted latency.
    interference
        Whether neighbours slow each other.
    network_rps
        Rate at which each workload alone takes all of a GPU's network, shape (workloads,); infinite without a limit.
    alone_rps
        Largest rate of each workload that is alone on its GPU, by the share of its gpulet, shape (workloads, share
        units + 1).
    """

    units: Ints
    slots: Ints
    workload: Ints
    batch: Ints
    rate_rps: Floats
    cycle_ms: Floats
    model: Ints
    slo_ms: Floats
    latency_buffer: float
    interference: bool
    network_rps: Floats
    alone_rps: Floats

    @classmethod
    def undivided(cls, view: View, gpus: int, interference: bool) -> "Gpulets":
        """Return ``gpus`` empty undivided GPUs for the workloads of ``view``."""
        shape = (2 * gpus, MOST_SLOTS)
        units = np.zeros(2 * gpus, dtype=np.int64)
        units[::2] = view.tables.share_units
        gpulets = cls(
            units,
            np.zeros(2 * gpus, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape),
            np.zeros(2 * gpus),
            view.model,
            view.slo_ms,
            view.instance.latency_buffer,
            interference,
            view.network_rps,
            np.zeros((0, 0)),
        )
        return gpulets._replace(alone_rps=_alone_rps(view.tables, gpulets))

    def copied(self) -> "Gpulets":
        """Return a copy that can change independently."""
        return Gpulets._make((*(array.copy() for array in self[:6]), *self[6:]))


@kernel
def neighbour_of(tables: Tables, gpulets: Gpulets, i: int) -> Neighbour:
    """Return the demands of the other gpulet of the GPU of ``i``; zeros if interference is off."""
    other = i ^ 1
    l2 = dram = power = 0.0
    if not gpulets.interference or gpulets.slots[other] == 0:
        return 0, l2, dram, power
    for s in range(gpulets.slots[other]):
        model, batch, units = gpulets.model[gpulets.workload[other, s]], gpulets.batch[other, s], gpulets.units[other]
        l2 = max(l2, tables.l2_pct[model, batch, units])
        dram = max(dram, tables.dram_pct[model, batch, units])
        power = max(power, tables.power_w[model, batch, units])
    return 1, l2, dram, power


@kernel
def inference_ms(tables: Tables, gpulets: Gpulets, workload: int, batch: int, units: int, beside: Neighbour) -> float:
    """Return ``t_inf`` of a batch beside a neighbour, times the latency buffer; infinite if it is infeasible."""
    m = gpulets.model[workload]
    if batch > tables.max_batch[m] or tables.memory_mib[m, batch] > tables.memory_limit_mib:
        return np.inf
    if gpulets.interference:
        own_power = tables.power_w[m, batch, units]
        t_gpu = gpu_time_ms(tables, m, batch, units, 1 + beside[0], beside[1], beside[2], beside[3] + own_power)
    else:
        t_gpu = tables.scheduling_ms[m] + tables.active_ms[m, batch, units]
    return gpulets.latency_buffer * (t_gpu + tables.transfer_ms[m, batch])


@kernel
def capacity_rps(tables: Tables, gpulets: Gpulets, workload: int, units: int, beside: Neighbour) -> float:
    """Return the largest rate of a gpulet with one slot: every cycle lasts as long as its batch, ``2 t_inf <= SLO``."""
    largest_rps = 0.0
    for batch in range(1, tables.max_batch[gpulets.model[workload]] + 1):
        t_inf = inference_ms(tables, gpulets, workload, batch, units, beside)
        if 2.0 * t_inf <= gpulets.slo_ms[workload] * (1.0 - 4.0 * SLACK):
            largest_rps = max(largest_rps, 1000.0 * batch / t_inf)
    return largest_rps * (1.0 - 2.0 * SLACK)


def times_by_batch_ms(view: View, gpulets: Gpulets, units: int) -> list[Floats]:
    """Return ``t_inf`` of each workload by batch, alone on a share of ``units``; entry 0 is infinite."""
    largest_batches = view.tables.max_batch[view.model]
    return [
        np.array([np.inf] + [inference_ms(view.tables, gpulets, w, b, units, ALONE) for b in range(1, largest + 1)])
        for w, largest in enumerate(largest_batches.tolist())
    ]


@compiled
def _alone_rps(tables: Tables, gpulets: Gpulets) -> Floats:
    """Return ``Gpulets.alone_rps``; the field itself is not read."""
    largest_rps = np.zeros((len(gpulets.model), tables.share_units + 1))
    for w in range(len(gpulets.model)):
        for units in tables.permitted:
            largest_rps[w, units] = capacity_rps(tables, gpulets, w, units, ALONE)
    return largest_rps


@kernel
def network_left(gpulets: Gpulets, i: int) -> float:
    """Return the fraction of its network that the GPU of ``i`` does not use."""
    left = 1.0
    for j in (i, i ^ 1):
        for s in range(gpulets.slots[j]):
            left -= gpulets.rate_rps[j, s] / gpulets.network_rps[gpulets.workload[j, s]]
    return left


@kernel
def capacity_on_rps(tables: Tables, gpulets: Gpulets, workload: int, i: int) -> float:
    """Return the largest rate of gpulet ``i`` with one slot, beside its neighbour and on the GPU's unused network."""
    largest_rps = capacity_rps(tables, gpulets, workload, gpulets.units[i], neighbour_of(tables, gpulets, i))
    if gpulets.network_rps[workload] < np.inf:
        largest_rps = min(largest_rps, max(0.0, network_left(gpulets, i)) * gpulets.network_rps[workload])
    return largest_rps


@kernel
def load(gpulets: Gpulets, i: int) -> float:
    """Return a lower bound on the busy fraction of gpulet ``i``; if it exceeds 1, the slots cannot take turns."""
    busy = 0.0
    for s in range(gpulets.slots[i]):
        busy += gpulets.rate_rps[i, s] / gpulets.alone_rps[gpulets.workload[i, s], gpulets.units[i]]
    return busy


@compiled
def duty_cycle_ms(
    tables: Tables,
    gpulets: Gpulets,
    workload: Ints,
    rate_rps: Floats,
    count: int,
    units: int,
    beside: Neighbour,
    batch: Ints,
) -> float:
    """Return a duty cycle in which the slots can take turns, and write their batches; 0 if none exists.

    In a cycle of D ms a slot collects ``b = ceil(r D / 1000)`` requests. All batches must fit into the cycle, and each
    must end within the SLO of its first request: ``sum t_inf <= D``, ``D + t_inf <= SLO``. Of all cycles with the same
    batches, the longest is best. Of these candidates, the cycle with the smallest busy fraction is taken.

    Parameters
    ----------
    workload, rate_rps
        Workloads and rates of the slots; the first ``count`` entries are used.
    batch
        Output: batch of each slot.
    """
    shortest_slo = np.inf
    for s in range(count):
        shortest_slo = min(shortest_slo, gpulets.slo_ms[workload[s]])
    best_cycle, least_busy = 0.0, np.inf
    trial = np.empty(count, dtype=np.int64)
    for full_slot in range(-1, count):  # slot whose batch is just full at the end of the cycle; -1: none
        for size in range(1, 2 if full_slot < 0 else tables.max_batch[gpulets.model[workload[full_slot]]] + 1):
            cycle = shortest_slo if full_slot < 0 else 1000.0 * size / rate_rps[full_slot]
            if cycle > shortest_slo:
                break
            busy = 0.0
            for s in range(count):
                trial[s] = max(1, int(np.ceil(rate_rps[s] * cycle / 1000.0 * (1.0 - SLACK))))
                t_inf = inference_ms(tables, gpulets, workload[s], trial[s], units, beside)
                cycle = min(cycle, gpulets.slo_ms[workload[s]] * (1.0 - SLACK) - t_inf)
                busy += t_inf
                if (
                    cycle <= 0.0
                ):  # it is -inf if the batch is infeasible: then no batch of the next slot can be computed
                    break
            if cycle > 0.0 and busy <= cycle * (1.0 - SLACK) and busy / cycle < least_busy:
                best_cycle, least_busy = cycle, busy / cycle
                batch[:count] = trial
    return best_cycle


@compiled
def can_take_turns(tables: Tables, gpulets: Gpulets, i: int) -> bool:
    """Return whether the slots of gpulet ``i`` can take turns on an otherwise empty GPU."""
    batch = np.empty(MOST_SLOTS, dtype=np.int64)
    slots = (gpulets.workload[i], gpulets.rate_rps[i], gpulets.slots[i])
    return duty_cycle_ms(tables, gpulets, *slots, gpulets.units[i], ALONE, batch) > 0.0


@compiled
def settle(tables: Tables, gpulets: Gpulets, i: int) -> bool:
    """Determine batches and duty cycles of both gpulets of the GPU of ``i`` at their rates.

    Return whether both gpulets are feasible; if not, batches and cycles are invalid.
    """
    trial = np.empty(MOST_SLOTS, dtype=np.int64)
    for _ in range(SETTLING_ROUNDS):
        changed = False
        memory_mib = 0.0
        for j in (i, i ^ 1):
            count = gpulets.slots[j]
            if count == 0:
                continue
            beside = neighbour_of(tables, gpulets, j)
            gpulets.cycle_ms[j] = duty_cycle_ms(
                tables,
                gpulets,
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
                memory_mib += tables.memory_mib[gpulets.model[gpulets.workload[j, s]], trial[s]]
        if not changed:
            return memory_mib <= tables.memory_limit_mib and network_left(gpulets, i) >= -SLACK
    return False


@compiled
def snapshot(gpulets: Gpulets, i: int) -> Gpulets:
    """Return a copy of the two gpulets of the GPU of ``i``."""
    g = i - i % 2
    return Gpulets(
        gpulets.units[g : g + 2].copy(),
        gpulets.slots[g : g + 2].copy(),
        gpulets.workload[g : g + 2].copy(),
        gpulets.batch[g : g + 2].copy(),
        gpulets.rate_rps[g : g + 2].copy(),
        gpulets.cycle_ms[g : g + 2].copy(),
        gpulets.model,
        gpulets.slo_ms,
        gpulets.latency_buffer,
        gpulets.interference,
        gpulets.network_rps,
        gpulets.alone_rps,
    )


@compiled
def restore(gpulets: Gpulets, i: int, saved: Gpulets) -> None:
    """Restore the GPU of ``i`` from ``saved``."""
    g = i - i % 2
    gpulets.units[g : g + 2] = saved.units
    gpulets.slots[g : g + 2] = saved.slots
    gpulets.workload[g : g + 2] = saved.workload
    gpulets.batch[g : g + 2] = saved.batch
    gpulets.rate_rps[g : g + 2] = saved.rate_rps
    gpulets.cycle_ms[g : g + 2] = saved.cycle_ms


@kernel
def put(gpulets: Gpulets, i: int, workload: int, rate_rps: float) -> bool:
    """Add a rate to the workload's slot in gpulet ``i``, or add a slot if there is room; batches do not change."""
    for s in range(gpulets.slots[i]):
        if gpulets.workload[i, s] == workload:
            gpulets.rate_rps[i, s] += rate_rps
            return True
    s = gpulets.slots[i]
    if s == MOST_SLOTS:
        return False
    gpulets.workload[i, s], gpulets.rate_rps[i, s], gpulets.batch[i, s] = workload, rate_rps, 0
    gpulets.slots[i] = s + 1
    return True

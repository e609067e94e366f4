"""Contents of a GPU whose slots may take turns: the rate of each slot beside its neighbours, and improvement.

A gpulet has up to three slots. A single slot follows the instance's SLO rule. Several slots take turns in the shortest
cycle, the sum of their batch times: in a longer cycle each slot serves less.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.improvement import exceeds, improvement
from formulations.colgen.temporal.gpulet_positions import SLOTS, Worth
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_beside_ms
from instances.one_gpu import Pattern, Resident
from instances.tables import Tables

CUSHION = 1e-9
"""Fraction by which every time is overestimated, so that rounding violates no SLO."""

SWEEPS = 12
"""Largest number of sweeps of an improvement."""


class GpuContents(NamedTuple):
    """A pattern in arrays; gpulets without share units, and slots of workload -1, are unused.

    Attributes
    ----------
    units
        Share of each gpulet, shape (gpulets,).
    workload, batch
        Slots of each gpulet, used ones first, shape (gpulets, 3).
    rate_rps, least_rps
        Largest and least rate that may be planned for each slot, with the latency buffer and ``CUSHION``.
    throughput_rps
        Requests per second that each slot completes when busy all the time. The number of a single slot is without the
        latency buffer and ``CUSHION``. Those of slots in turn contain both, because their cycle does.
    cycle_ms
        Duty cycle of each gpulet with several slots; 0 for the others.
    """

    units: Ints
    workload: Ints
    batch: Ints
    rate_rps: Floats
    least_rps: Floats
    throughput_rps: Floats
    cycle_ms: Floats


def empty_contents(gpulets: int) -> GpuContents:
    """Return an empty GPU of at most ``gpulets`` gpulets."""
    return GpuContents(
        np.zeros(gpulets, dtype=np.int64),
        np.full((gpulets, SLOTS), -1, dtype=np.int64),
        np.zeros((gpulets, SLOTS), dtype=np.int64),
        np.zeros((gpulets, SLOTS)),
        np.zeros((gpulets, SLOTS)),
        np.zeros((gpulets, SLOTS)),
        np.zeros(gpulets),
    )


def pattern_of(pool: int, gpulets: Iterable[tuple[int, Iterable[tuple[int, int]]]]) -> Pattern:
    """Return the pattern of gpulets with slots (workload, batch), without unused gpulets and slots (workload -1)."""
    used = [
        (units, tuple(sorted(Resident(w, b, 0.0) for w, b in slots if w >= 0))) for units, slots in gpulets if units > 0
    ]
    return Pattern(pool, tuple(sorted(used)))


def pattern_of_contents(pool: int, contents: GpuContents) -> Pattern:
    """Return the pattern with the contents in the arrays."""
    slots = np.stack([contents.workload, contents.batch], axis=-1).tolist()
    return pattern_of(pool, zip(contents.units.tolist(), slots, strict=True))


def contents_of(pattern: Pattern, gpulets: int = 0) -> GpuContents:
    """Return the contents of a pattern in arrays with room for at least ``gpulets`` gpulets."""
    contents = empty_contents(max(gpulets, len(pattern.gpulets)))
    for g, (units, slots) in enumerate(pattern.gpulets):
        contents.units[g] = units
        for s, slot in enumerate(slots):
            contents.workload[g, s], contents.batch[g, s] = slot.workload, slot.batch
    return contents


@compiled
def serve(demand: DemandOnGpu, contents: GpuContents) -> bool:
    """Write rates, throughputs and cycles; return whether shares and memory suffice and every slot meets its SLO."""
    tables = demand.tables
    gpulets, demands, memory, units = 0, np.zeros((len(contents.units), 3)), 0.0, 0
    for g in range(len(contents.units)):
        if contents.units[g] == 0:
            continue
        units += contents.units[g]
        for s in range(SLOTS):
            if contents.workload[g, s] >= 0:
                m, b, u = demand.model[contents.workload[g, s]], contents.batch[g, s], contents.units[g]
                demands[gpulets, 0] = max(demands[gpulets, 0], tables.l2_pct[m, b, u])
                demands[gpulets, 1] = max(demands[gpulets, 1], tables.dram_pct[m, b, u])
                demands[gpulets, 2] = max(demands[gpulets, 2], tables.power_w[m, b, u])
                memory += tables.memory_mib[m, b]
        gpulets += 1
    if units > tables.share_units or gpulets > tables.most_residents or memory > tables.memory_limit_mib:
        return False
    factor = demand.latency_buffer * (1.0 + CUSHION)
    gpulet_position = -1
    for g in range(len(contents.units)):
        if contents.units[g] == 0:
            continue
        gpulet_position += 1
        slots, total_ms, longest_cycle_ms = 0, 0.0, np.inf
        for s in range(SLOTS):
            w, b = contents.workload[g, s], contents.batch[g, s]
            if w < 0:
                continue
            m = demand.model[w]
            t_gpu = gpu_time_beside_ms(tables, m, b, contents.units[g], demands[:gpulets], gpulet_position)
            time_ms = factor * (t_gpu + tables.transfer_ms[m, b])
            slots += 1
            total_ms += time_ms
            longest_cycle_ms = min(longest_cycle_ms, demand.slo_ms[w] - time_ms)
            overhead_ms = demand.overhead_ms[m, b]
            contents.rate_rps[g, s] = 1000.0 * b / (factor * (t_gpu + overhead_ms))
            contents.throughput_rps[g, s] = 1000.0 * b / (t_gpu + tables.exposed_ms[m, b])
            contents.least_rps[g, s] = 0.0
            if slots == 1:
                meets_slo_alone = time_ms <= demand.longest_ms[w, b]
                if demand.waits_for_batch and b > 1 and time_ms < demand.slo_ms[w]:
                    contents.least_rps[g, s] = 1000.0 * (b - 1) / (demand.slo_ms[w] - time_ms) * (1.0 + CUSHION)
                    meets_slo_alone = meets_slo_alone and contents.least_rps[g, s] <= contents.rate_rps[g, s]
        if slots == 0:
            return False
        contents.cycle_ms[g] = 0.0
        if slots == 1:
            if not meets_slo_alone:
                return False
            continue
        if not total_ms <= longest_cycle_ms:
            return False
        contents.cycle_ms[g] = total_ms
        for s in range(SLOTS):
            if contents.workload[g, s] >= 0:
                contents.least_rps[g, s] = 0.0
                contents.throughput_rps[g, s] = 1000.0 * contents.batch[g, s] / total_ms
                contents.rate_rps[g, s] = contents.throughput_rps[g, s] * (1.0 - CUSHION)
    return True


@compiled
def worth_of(demand: DemandOnGpu, worth: Worth, contents: GpuContents) -> float:
    """Return the worth of the rates that a GPU serves, and write its rates; -inf if it is infeasible."""
    if not serve(demand, contents):
        return -np.inf
    total, served_rps = 0.0, np.zeros(len(worth.per_rps))
    for g in range(len(contents.units)):
        for s in range(SLOTS):
            w = contents.workload[g, s]
            if contents.units[g] > 0 and w >= 0:
                served_rps[w] += plannable_rps(worth, w, contents.rate_rps[g, s])
                total += worth.throughput * contents.throughput_rps[g, s]
    for g in range(len(contents.units)):
        for s in range(SLOTS):
            w = contents.workload[g, s]
            if contents.units[g] > 0 and w >= 0:
                total += worth.per_rps[w] * min(served_rps[w], worth.most_rps[w])
                served_rps[w] = 0.0
    return total


@compiled
def plannable_rps(worth: Worth, workload: int, rate_rps: float) -> float:
    """Return the largest rate that may be planned for a slot that can serve ``rate_rps``."""
    step = worth.step_rps[workload]
    return np.floor(rate_rps / step + 1e-9) * step if step > 0.0 else rate_rps


def improve(demand: DemandOnGpu, worth: Worth, contents: GpuContents, most_slots: int) -> float:
    """Change workloads, batches and shares as long as that adds worth; return the worth.

    Parameters
    ----------
    contents
        Start, changed in place; infeasible slots are removed first.
    most_slots
        Largest number of slots of a gpulet: 1 or 3.
    """
    _make_feasible(demand, contents)
    _improve[most_slots](demand, worth, contents)
    _close_gaps(contents)
    return float(worth_of(demand, worth, contents))


@compiled
def _make_feasible(demand: DemandOnGpu, contents: GpuContents) -> None:
    """Lower the batches and remove the slots of a GPU, last slots first, until it is feasible."""
    g = len(contents.units) - 1
    while g >= 0 and not serve(demand, contents):
        s = SLOTS - 1
        while s >= 0 and contents.workload[g, s] < 0:
            s -= 1
        if s < 0:
            contents.units[g] = 0
            g -= 1
        elif contents.batch[g, s] > 1:
            contents.batch[g, s] -= 1
        else:
            contents.workload[g, s] = -1
            if s == 0:
                contents.units[g] = 0
                g -= 1


@compiled
def _open_gpulet(tables: Tables, contents: GpuContents, gpulet: int) -> bool:
    """Give an unused gpulet the largest permitted share that is free; return whether there is one."""
    free = tables.share_units - contents.units.sum()
    fits = np.searchsorted(tables.permitted, free, side="right")
    if fits == 0:
        return False
    contents.units[gpulet] = tables.permitted[fits - 1]
    contents.workload[gpulet] = -1
    return True


@compiled
def _improve_slot(
    demand: DemandOnGpu, worth: Worth, contents: GpuContents, gpulet: int, slot: int, best: float
) -> float:
    """Try every workload and batch for a slot, and its removal if another slot follows; return the best worth."""
    best_workload, best_batch = contents.workload[gpulet, slot], contents.batch[gpulet, slot]
    for w in range(len(worth.per_rps)):
        if worth.per_rps[w] <= 0.0 and worth.throughput <= 0.0:
            continue
        contents.workload[gpulet, slot] = w
        for b in range(1, demand.tables.max_batch[demand.model[w]] + 1):
            contents.batch[gpulet, slot] = b
            value = worth_of(demand, worth, contents)
            if exceeds(value, best):
                best, best_workload, best_batch = value, w, b
    contents.workload[gpulet, slot], contents.batch[gpulet, slot] = best_workload, best_batch
    if best_workload >= 0 and slot + 1 < SLOTS and contents.workload[gpulet, slot + 1] >= 0:
        saved_workload, saved_batch = contents.workload[gpulet].copy(), contents.batch[gpulet].copy()
        for later in range(slot, SLOTS - 1):
            contents.workload[gpulet, later] = contents.workload[gpulet, later + 1]
            contents.batch[gpulet, later] = contents.batch[gpulet, later + 1]
        contents.workload[gpulet, SLOTS - 1] = -1
        value = worth_of(demand, worth, contents)
        if exceeds(value, best):
            return value
        contents.workload[gpulet], contents.batch[gpulet] = saved_workload, saved_batch
    return best


def _changes(most_slots: int) -> Callable[..., float]:
    """Return the kernel of the changes at a gpulet of at most ``most_slots`` slots; see ``improvement``."""

    @compiled
    def change(demand: DemandOnGpu, worth: Worth, contents: GpuContents, gpulet: int, best: float) -> float:
        if contents.units[gpulet] == 0 and not _open_gpulet(demand.tables, contents, gpulet):
            return best
        for s in range(most_slots):
            best = _improve_slot(demand, worth, contents, gpulet, s, best)
            if contents.workload[gpulet, s] < 0:
                break
        if contents.workload[gpulet, 0] < 0:
            contents.units[gpulet] = 0
        return best

    return change


_improve = {slots: improvement(worth_of, _changes(slots), SWEEPS) for slots in (1, SLOTS)}
"""Kernels that improve a feasible GPU; the key is the largest number of slots of a gpulet."""


@compiled
def _close_gaps(contents: GpuContents) -> None:
    """Move the used gpulets to the front."""
    used_gpulets = 0
    for g in range(len(contents.units)):
        if contents.units[g] > 0:
            if used_gpulets < g:
                contents.units[used_gpulets], contents.units[g] = contents.units[g], 0
                contents.workload[used_gpulets], contents.batch[used_gpulets] = contents.workload[g], contents.batch[g]
            used_gpulets += 1

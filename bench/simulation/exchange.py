"""Switch of plans in a running simulation: continuing processes, in-flight batches and waiting requests."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from bench.simulation.applications import NONE, Flow, Underway
from bench.simulation.gpu_group import GpuGroup
from bench.simulation.routing import Routing
from bench.simulation.settings import KernelSettings
from instances import Gpulet, Instance, Partition, Plan
from instances.arrays import Floats


def processes(plan: Plan, instance: Instance) -> dict[Hashable, tuple[int, int]]:
    """Return, for each process of a plan, the index of its site, and of its executor there.

    The GPU (by position), share, batches and workloads of a process never change. If they are equal in two plans, the
    process is the same in both plans, even if its rates or its duty cycle differ. Processes with equal properties are
    numbered, so that each has a key of its own.
    """
    place_of: dict[Hashable, tuple[int, int]] = {}
    site = 0
    for pool in instance.gpus:
        count_of: Counter[Hashable] = Counter()
        executor = 0
        for position, gpu in enumerate(plan.gpus):
            if gpu.type != pool.type.name:
                continue
            for gpulet in gpu.gpulets:
                kind = (gpu.type, position, *identity(gpulet))
                for _ in range(gpulet.processes if instance.partition is Partition.MIG else 1):
                    place_of[kind, count_of[kind]] = site, executor
                    count_of[kind] += 1
                    executor += 1
        if executor > 0:  # a GPU type without gpulets has no site
            site += 1
    return place_of


def identity(gpulet: Gpulet) -> tuple[Hashable, ...]:
    """Return the properties of a gpulet that cannot change without new processes."""
    slots = tuple((slot.workload, slot.batch) for slot in gpulet.slots)
    return gpulet.share_units, gpulet.start, gpulet.processes, slots


def queued_arrivals_ms(groups: Sequence[GpuGroup], workloads: int) -> list[Floats]:
    """Return, for each workload, the sorted arrival times of its queued requests, which are not in a batch yet."""
    pieces_of: list[list[Floats]] = [[np.empty(0)] for _ in range(workloads)]
    for group in groups:
        in_flight = _in_flight_sizes(group)
        for slot, workload in enumerate(group.site.slots["workload"]):
            pieces_of[workload].append(group.arrivals_ms[group.unfinished(slot)][in_flight[slot] :])
    return [np.sort(np.concatenate(pieces)) for pieces in pieces_of]


def _in_flight_sizes(group: GpuGroup) -> list[int]:
    """Return the size of each slot's in-flight batch."""
    sizes = [0] * len(group.queues)
    for state in group.state:
        if state["slot"] != NONE:
            sizes[int(state["slot"])] = int(state["size"])
    return sizes


def take_over(
    old_plan: Plan,
    old_groups: Sequence[GpuGroup],
    new_plan: Plan,
    new_groups: Sequence[GpuGroup],
    instance: Instance,
    now_ms: float,
) -> None:
    """Move the processes that are in both plans to the new plan; its other processes begin at ``now_ms``.

    ``old_groups`` keep only the in-flight batches of the processes that end. ``new_groups`` get the in-flight batches
    of the continuing processes.
    """
    for group in old_groups:
        in_flight = np.array(_in_flight_sizes(group), dtype=np.int64)
        group.queues["known"] = group.queues["head"] + in_flight
    for group in new_groups:
        group.state["free_ms"] = now_ms
    old_place_of = processes(old_plan, instance)
    for process, (site, executor) in processes(new_plan, instance).items():
        if process in old_place_of:
            old_site, old_executor = old_place_of[process]
            _continue_process(old_groups[old_site], old_executor, new_groups[site], executor)


def _continue_process(old: GpuGroup, old_executor: int, new: GpuGroup, executor: int) -> None:
    """Move a process and its in-flight batch to the new plan."""
    old_record, state = old.site.executors[old_executor], old.state[old_executor]
    record = new.site.executors[executor]
    slot_offset = int(record["first_slot"]) - int(old_record["first_slot"])
    for name in ("event_ms", "size", "started_ms", "since_ms", "left", "whole_ms", "factor"):
        new.state[name][executor] = state[name]
    new.state["free_ms"][executor] = max(float(state["free_ms"]), float(new.state["free_ms"][executor]))
    if state["slot"] == NONE:
        return
    slot = int(state["slot"])
    new.state["slot"][executor] = slot + slot_offset
    begin = len(new.arrivals_ms)
    new.arrivals_ms = np.append(new.arrivals_ms, old.arrivals_ms[old.unfinished(slot)])
    new.queues["head"][slot + slot_offset], new.queues["known"][slot + slot_offset] = begin, len(new.arrivals_ms)
    new.queues["batches"][slot + slot_offset] = old.queues["batches"][slot]
    old.queues["known"][slot] = old.queues["head"][slot]
    old.state["slot"][old_executor] = NONE


def end_batches(group: GpuGroup, settings: KernelSettings, routing: Routing, flow: Flow, underway: Underway) -> None:
    """Run all in-flight batches to their end, except those with an infinite time in the performance model."""
    while True:
        ends_ms = group.state["event_ms"][(group.state["slot"] != NONE) & np.isfinite(group.state["event_ms"])]
        if len(ends_ms) == 0:
            return
        group.advance(settings, routing, flow, underway, float(ends_ms.max()))

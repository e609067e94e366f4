"""One plan in place of another while requests flow: which processes go on, and what becomes of everybody else."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from bench.simulation.applications import NONE, Flow, Underway
from bench.simulation.gpu_group import GpuGroup
from bench.simulation.routing import Routing
from bench.simulation.state import KernelSettings
from instances import Gpulet, Instance, Partition, Plan
from instances.arrays import Floats


def processes(plan: Plan, instance: Instance) -> dict[Hashable, tuple[int, int]]:
    """Return where each process of a plan runs: its site, and its executor there.

    A process keeps its GPU (by position), share, batches and workloads all its life: what is equal in that is the same
    process in two plans. Rates and duty cycles may change.
    """
    found: dict[Hashable, tuple[int, int]] = {}
    site = 0
    for pool in instance.gpus:
        seen: Counter[Hashable] = Counter()
        executor = 0
        for position, gpu in enumerate(plan.gpus):
            for gpulet in gpu.gpulets if gpu.type == pool.type.name else ():
                kind = (gpu.type, position, *identity(gpulet))
                for _ in range(gpulet.processes if instance.partition is Partition.MIG else 1):
                    found[kind, seen[kind]] = site, executor
                    seen[kind] += 1
                    executor += 1
        site += executor > 0
    return found


def identity(gpulet: Gpulet) -> tuple[Hashable, ...]:
    """Return what a gpulet cannot change without new processes."""
    slots = tuple((slot.workload, slot.batch) for slot in gpulet.slots)
    return gpulet.share_units, gpulet.start, gpulet.processes, slots


def not_running_ms(parts: Sequence[GpuGroup], workloads: int) -> list[Floats]:
    """Return when those came that are in no batch yet, in the order of time, for each workload."""
    found: list[list[Floats]] = [[np.empty(0)] for _ in range(workloads)]
    for part in parts:
        running = _running(part)
        for slot, w in enumerate(part.site.slots["workload"]):
            found[w].append(part.arrivals_ms[part.waiting(slot)][running[slot] :])
    return [np.sort(np.concatenate(pieces)) for pieces in found]


def _running(part: GpuGroup) -> list[int]:
    """Return how many requests of each slot are in its batch."""
    running = [0] * len(part.queues)
    for state in part.state:
        if state["slot"] != NONE:
            running[int(state["slot"])] = int(state["size"])
    return running


def take_over(
    before: Plan, old: Sequence[GpuGroup], after: Plan, new: Sequence[GpuGroup], instance: Instance, now_ms: float
) -> None:
    """Let processes that are in both plans go on in the new one, and all others there begin at ``now_ms``.

    Parameters
    ----------
    before, old
        The plan until now; left with the batches of processes that end.
    after, new
        The plan from now on; left with the batches of processes that go on, and no other requests.
    instance
        What both answer.
    now_ms
        In simulated time.
    """
    for part in old:
        running = np.array(_running(part), dtype=np.int64)
        part.queues["known"] = part.queues["head"] + running
    for part in new:
        part.state["free_ms"] = now_ms
    was = processes(before, instance)
    for process, (site, executor) in processes(after, instance).items():
        if process in was:
            of, earlier = was[process]
            _go_on(old[of], earlier, new[site], executor)


def _go_on(old: GpuGroup, earlier: int, new: GpuGroup, executor: int) -> None:
    """Move a process and its batch."""
    was, state = old.site.executors[earlier], old.state[earlier]
    record = new.site.executors[executor]
    moved = int(record["first_slot"]) - int(was["first_slot"])
    for name in ("event_ms", "size", "started_ms", "since_ms", "left", "whole_ms", "factor"):
        new.state[name][executor] = state[name]
    new.state["free_ms"][executor] = max(float(state["free_ms"]), float(new.state["free_ms"][executor]))
    if state["slot"] == NONE:
        return
    slot = int(state["slot"])
    new.state["slot"][executor] = slot + moved
    begin = len(new.arrivals_ms)
    new.arrivals_ms = np.append(new.arrivals_ms, old.arrivals_ms[old.waiting(slot)])
    new.queues["head"][slot + moved], new.queues["known"][slot + moved] = begin, len(new.arrivals_ms)
    new.queues["batches"][slot + moved] = old.queues["batches"][slot]
    old.queues["known"][slot] = old.queues["head"][slot]
    old.state["slot"][earlier] = NONE


def end_batches(part: GpuGroup, terms: KernelSettings, routing: Routing, flow: Flow, underway: Underway) -> None:
    """Let the batches end that run; one that the performance model never lets end is given up."""
    while True:
        ends_ms = part.state["event_ms"][(part.state["slot"] != NONE) & np.isfinite(part.state["event_ms"])]
        if len(ends_ms) == 0:
            return
        part.advance(terms, routing, flow, underway, float(ends_ms.max()))

"""The judge's rules for GPUs cut into MIG instances: every instance is isolated, so each is judged by itself.

Kinds of violation: ``slice`` (there is no such size), ``start`` (that size may not begin there), ``overlap`` (two
instances hold the same position), ``blocked`` (an instance holds a position that another one blocks), ``configuration``
(nothing is known of the model run that way), ``latency`` (beyond half the SLO) and ``rate`` (more requests than the
instance can do).
"""

import math
from collections.abc import Iterable, Iterator
from itertools import combinations

from bench.judging.verdict import RATE_TOLERANCE, SlotVerdict, Violation
from instances import Gpulet, InputError, Instance, MigProfile, Partition, PlacedGpu


def check_mig_gpulet(gpulet: Gpulet, partition: Partition, where: str) -> None:
    """Make sure that a gpulet is of the kind that its GPU is divided into.

    Raises
    ------
    InputError
        If it is not; ``where`` names its place in the plan.
    """
    if partition is not Partition.MIG:
        if gpulet.start is not None or gpulet.processes != 1:
            raise InputError(where, "only a MIG instance has a start and several processes; this GPU is shared freely")
        return
    if gpulet.start is None or gpulet.start < 0:
        raise InputError(f"{where}.start", f"is {gpulet.start}; a MIG instance begins at a position from 0 up")
    if gpulet.processes < 1:
        raise InputError(f"{where}.processes", f"is {gpulet.processes}; expected at least 1")
    if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None:
        raise InputError(where, "a MIG instance serves one workload; nothing takes turns in it")


def judge_mig_gpu(position: int, gpu: PlacedGpu, instance: Instance) -> tuple[list[SlotVerdict], list[Violation]]:
    """Judge one GPU: where its instances begin, and what each of them does."""
    pool = instance.pool(gpu.type)
    assert pool is not None
    assert pool.type.mig is not None
    mig = pool.type.mig
    slots: list[SlotVerdict] = []
    violations = [*_placement(position, gpu, mig)]
    for gpulet in gpu.gpulets:
        slot, found = _judge_instance(position, gpulet, mig, instance)
        slots.append(slot)
        violations += found
    return slots, violations


def _placement(position: int, gpu: PlacedGpu, mig: MigProfile) -> Iterator[Violation]:
    """Find instances that are not of a size, not at a start, or in each other's way."""
    placed: list[tuple[int, int, int]] = []
    for gpulet in gpu.gpulets:
        units, start, size = gpulet.share_units, gpulet.start, mig.slice_of(gpulet.share_units)
        assert start is not None
        if size is None:
            sizes = _listed(one.units for one in mig.slices)
            message = f"GPU {position}: no instance has {units} slices; {gpu.type} has sizes {sizes}"
            yield Violation("slice", position, None, units, 0, message)
            continue
        if start not in size.starts:
            message = f"GPU {position}: an instance of {units} begins at {start}; it may at {_listed(size.starts)}"
            yield Violation("start", position, None, start, 0, message)
        placed.append((start, units, size.span))
    for (first, units, span), (second, other, _) in combinations(sorted(placed), 2):
        shared = first + units - second
        if shared > 0:
            message = f"GPU {position}: the instances of {units} at {first} and of {other} at {second} overlap"
            yield Violation("overlap", position, None, min(shared, other), 0, message)
        elif first + span > second:
            message = f"GPU {position}: the instance of {units} at {first} blocks the one of {other} at {second}"
            yield Violation("blocked", position, None, min(first + span - second, other), 0, message)


def _judge_instance(
    position: int, gpulet: Gpulet, mig: MigProfile, instance: Instance
) -> tuple[SlotVerdict, list[Violation]]:
    (slot,) = gpulet.slots
    workload = instance.workloads[instance.workload_index[slot.workload]]
    budget_ms = workload.slo_ms / 2.0 / instance.latency_buffer
    known = mig.configuration(workload.model, gpulet.share_units, slot.batch, gpulet.processes)
    at = f"GPU {position}, {slot.workload}"
    if known is None:
        message = (
            f"{at}: no figures for {workload.model} in an instance of {gpulet.share_units}"
            f" with batch {slot.batch} and {gpulet.processes} processes"
        )
        nothing = SlotVerdict(position, slot.workload, math.inf, math.inf, budget_ms, 0.0, 0.0)
        return nothing, [Violation("configuration", position, slot.workload, slot.batch, 0, message)]
    found = []
    if not known.latency_ms <= budget_ms:
        message = f"{at}: {known.latency_ms:g} ms exceed {budget_ms:g} ms, half its SLO"
        found.append(Violation("latency", position, slot.workload, known.latency_ms, budget_ms, message))
    # A buffer lengthens every batch: as many fewer fit into a second.
    most_rps = known.throughput_rps / instance.latency_buffer
    if slot.rate_rps > most_rps * (1.0 + RATE_TOLERANCE):
        message = f"{at}: {slot.rate_rps:g} req/s, the instance serves {most_rps:g}"
        found.append(Violation("rate", position, slot.workload, most_rps, slot.rate_rps, message))
    busy = min(1.0, slot.rate_rps / known.throughput_rps)
    latency_ms = known.latency_ms
    return SlotVerdict(position, slot.workload, latency_ms, latency_ms, budget_ms, known.throughput_rps, busy), found


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))

"""Rules of the judge for GPUs in MIG mode.

MIG instances are isolated, so the judge checks each MIG instance separately.

Kinds of violation: ``slice`` (no such size), ``start`` (not a permitted start for the size), ``overlap`` (two MIG
instances occupy the same position), ``blocked`` (a MIG instance occupies a position that another MIG instance blocks),
``configuration`` (no figures for the model with this size, batch and processes), ``latency`` (beyond half the SLO) and
``rate`` (more requests than the MIG instance can serve).
"""

import math
from collections.abc import Iterator
from itertools import combinations

from bench.judging.verdict import SlotVerdict, Violation
from instances import Gpulet, InputError, Instance, MigProfile, Partition, PlacedGpu
from instances.tolerance import widened


def check_mig_gpulet(gpulet: Gpulet, partition: Partition, where: str) -> None:
    """Check that a gpulet matches the partition of its GPU.

    Raises
    ------
    InputError
        If it does not; ``where`` is the position in the plan.
    """
    if partition is not Partition.MIG:
        if gpulet.start is not None or gpulet.processes != 1:
            raise InputError(where, "has a start or several processes, but this GPU is not in MIG mode; leave them out")
        return
    if gpulet.start is None or gpulet.start < 0:
        raise InputError(f"{where}.start", f"is {gpulet.start}; expected the position of a MIG instance, at least 0")
    if gpulet.processes < 1:
        raise InputError(f"{where}.processes", f"is {gpulet.processes}; expected at least 1")
    if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None:
        raise InputError(where, "a MIG instance has one slot and no duty_cycle_ms")


def judge_mig_gpu(position: int, gpu: PlacedGpu, instance: Instance) -> tuple[list[SlotVerdict], list[Violation]]:
    """Judge one GPU: the placement of its MIG instances, and the service of each one."""
    pool = instance.pool(gpu.type)
    assert pool is not None
    assert pool.type.mig is not None
    mig = pool.type.mig
    slot_verdicts: list[SlotVerdict] = []
    violations = [*_placement_violations(position, gpu, mig)]
    for gpulet in gpu.gpulets:
        slot_verdict, new_violations = _judge_mig_instance(position, gpulet, mig, instance)
        slot_verdicts.append(slot_verdict)
        violations += new_violations
    return slot_verdicts, violations


def _placement_violations(position: int, gpu: PlacedGpu, mig: MigProfile) -> Iterator[Violation]:
    """Find MIG instances of a wrong size, at a wrong start, or in conflict with each other."""
    placed: list[tuple[int, int, int]] = []
    for gpulet in gpu.gpulets:
        units, start, size = gpulet.share_units, gpulet.start, mig.slice_of(gpulet.share_units)
        assert start is not None
        if size is None:
            sizes = ", ".join(str(slice_.units) for slice_ in mig.slices)
            message = f"GPU {position}: no instance has {units} slices; {gpu.type} has sizes {sizes}"
            yield Violation("slice", position, None, units, 0, message)
            continue
        if start not in size.starts:
            starts = ", ".join(map(str, size.starts))
            message = f"GPU {position}: an instance of {units} begins at {start}; it may at {starts}"
            yield Violation("start", position, None, start, 0, message)
        placed.append((start, units, size.span))
    for (first, units, span), (second, other_units, _) in combinations(sorted(placed), 2):
        overlap = first + units - second
        if overlap > 0:
            message = f"GPU {position}: the instances of {units} at {first} and of {other_units} at {second} overlap"
            yield Violation("overlap", position, None, min(overlap, other_units), 0, message)
        elif first + span > second:
            message = f"GPU {position}: the instance of {units} at {first} blocks the one of {other_units} at {second}"
            yield Violation("blocked", position, None, min(first + span - second, other_units), 0, message)


def _judge_mig_instance(
    position: int, gpulet: Gpulet, mig: MigProfile, instance: Instance
) -> tuple[SlotVerdict, list[Violation]]:
    """Judge the service of one MIG instance: its configuration, latency and rate."""
    (slot,) = gpulet.slots
    workload = instance.workloads[instance.workload_index[slot.workload]]
    budget_ms = workload.slo_ms / 2.0 / instance.latency_buffer
    configuration = mig.configuration(workload.model, gpulet.share_units, slot.batch, gpulet.processes)
    place = f"GPU {position}, {slot.workload}"
    if configuration is None:
        message = (
            f"{place}: no figures for {workload.model} in an instance of {gpulet.share_units}"
            f" with batch {slot.batch} and {gpulet.processes} processes"
        )
        no_figures = SlotVerdict(position, slot.workload, math.inf, math.inf, budget_ms, 0.0, 0.0, -1.0)
        return no_figures, [Violation("configuration", position, slot.workload, slot.batch, 0, message)]
    violations = []
    if not configuration.latency_ms <= widened(budget_ms):
        message = f"{place}: {configuration.latency_ms:g} ms exceed {budget_ms:g} ms, half its SLO"
        violations.append(Violation("latency", position, slot.workload, configuration.latency_ms, budget_ms, message))
    # The latency buffer lengthens every batch, so the throughput falls by the same factor.
    most_rps = configuration.throughput_rps / instance.latency_buffer
    if slot.rate_rps > widened(most_rps):
        message = f"{place}: {slot.rate_rps:g} req/s, the instance serves {most_rps:g}"
        violations.append(Violation("rate", position, slot.workload, most_rps, slot.rate_rps, message))
    busy = min(1.0, slot.rate_rps / configuration.throughput_rps)
    latency_ms = configuration.latency_ms
    slack = min(widened(budget_ms) / latency_ms, widened(most_rps) / slot.rate_rps) - 1.0
    return SlotVerdict(
        position, slot.workload, latency_ms, latency_ms, budget_ms, configuration.throughput_rps, busy, slack
    ), violations

"""Distribution of the slots of patterns among identical workloads, and removal of the surplus."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import GOODPUT_STEP, Instance, Objective
from instances.arrays import Ints
from instances.one_gpu import Pattern, Resident
from instances.view import View

ROUNDING = 1e-10
"""Fraction of a workload's rate below which a difference of rates counts as rounding."""


@dataclass(slots=True)
class _ServedSlot:
    """A slot of a pattern: its GPU, workload, batch and rate; the rate is 0 once the slot is dropped."""

    gpu: int
    pool: int
    workload: int
    batch: int
    rate_rps: float


def shared_out(
    instance: Instance, class_of: Ints, patterns: Sequence[Pattern], views: Sequence[View]
) -> list[list[Resident]] | None:
    """Assign every slot of ``patterns`` to one workload of its class.

    Returns
    -------
    list or None
        Residents of each pattern's GPU after removal of the surplus; ``None`` if under ``cost`` this assignment
        leaves a workload uncovered or with a surplus.
    """
    slots: dict[int, list[_ServedSlot]] = defaultdict(list)
    for g, pattern in enumerate(patterns):
        for w, batch, rate in pattern.residents:
            slots[int(class_of[w])].append(_ServedSlot(g, pattern.pool, w, batch, rate))
    for class_index, class_slots in slots.items():
        members = np.flatnonzero(class_of == class_index).tolist()
        workload_rps = instance.workloads[members[0]].rate_rps
        by_member = [class_slots] if len(members) == 1 else _by_copy(class_slots, len(members), workload_rps)
        for w, member_slots in zip(members, by_member, strict=True):
            for slot in member_slots:
                slot.workload = w
            short = workload_rps * (1.0 - ROUNDING) > sum(slot.rate_rps for slot in member_slots)
            if short and instance.objective is Objective.COST:
                return None
            surplus = _remove_surplus(instance, views, member_slots, workload_rps)
            if surplus > ROUNDING * workload_rps and instance.objective is Objective.COST:
                return None
    residents: list[list[Resident]] = [[] for _ in patterns]
    for class_slots in slots.values():
        for slot in class_slots:
            if slot.rate_rps > 0.0:
                residents[slot.gpu].append(Resident(slot.workload, slot.batch, slot.rate_rps))
    return [sorted(gpu_residents, key=lambda r: (r.workload, r.batch, r.rate_rps)) for gpu_residents in residents]


def _by_copy(slots: list[_ServedSlot], copies: int, workload_rps: float) -> list[list[_ServedSlot]]:
    """Return the slots of each copy, one of the identical workloads of a class; drop the slots that none needs.

    Each copy takes the largest slots left. From its second slot on, it takes the smallest one that covers the rest of
    its rate, if there is one.
    """
    unassigned = sorted(slots, key=lambda slot: slot.rate_rps)
    by_copy: list[list[_ServedSlot]] = []
    for _ in range(copies):
        copy_slots: list[_ServedSlot] = []
        missing_rps = workload_rps * (1.0 - ROUNDING)
        while unassigned and missing_rps > 0.0:
            completing = [i for i, slot in enumerate(unassigned) if slot.rate_rps >= missing_rps]
            slot = unassigned.pop(completing[0] if copy_slots and completing else -1)
            copy_slots.append(slot)
            missing_rps -= slot.rate_rps
        by_copy.append(copy_slots)
    for slot in unassigned:
        slot.rate_rps = 0.0
    return by_copy


def _remove_surplus(instance: Instance, views: Sequence[View], slots: list[_ServedSlot], workload_rps: float) -> float:
    """Lower or drop slots, smallest first, until they serve at most ``workload_rps``; return the excess that remains.

    Under ``assembly`` a batch that fills more slowly may violate the SLO. Such a slot keeps its rate under ``cost`` and
    is dropped under ``goodput``.
    """
    surplus = sum(slot.rate_rps for slot in slots) - workload_rps
    for slot in sorted(slots, key=lambda slot: slot.rate_rps):
        if surplus <= ROUNDING * workload_rps:
            break
        lowered_rps = slot.rate_rps - surplus
        if instance.objective is Objective.GOODPUT:
            lowered_rps = workload_rps * (GOODPUT_STEP * round(lowered_rps / (workload_rps * GOODPUT_STEP)))
        if lowered_rps <= ROUNDING * workload_rps:
            lowered_rps = 0.0
        elif not _stays_feasible(views[slot.pool], slot, lowered_rps):
            if instance.objective is Objective.COST:
                continue
            lowered_rps = 0.0
        surplus -= slot.rate_rps - lowered_rps
        slot.rate_rps = lowered_rps
    return surplus


def _stays_feasible(view: View, slot: _ServedSlot, rate_rps: float) -> bool:
    """Return whether the slot's batch may still take at least as long at a lower rate."""
    before, after = view.budget_ms(slot.workload, slot.batch, np.array([slot.rate_rps, rate_rps]))
    return bool(after >= before)

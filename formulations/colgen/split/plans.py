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
"""Part of a rate that may be missing."""


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
    for group, of_class in slots.items():
        members = np.flatnonzero(class_of == group).tolist()
        workload_rps = instance.workloads[members[0]].rate_rps
        shares = [of_class] if len(members) == 1 else _by_copy(of_class, len(members), workload_rps)
        for w, share in zip(members, shares, strict=True):
            for slot in share:
                slot.workload = w
            short = workload_rps * (1.0 - ROUNDING) > sum(slot.rate_rps for slot in share)
            if short and instance.objective is Objective.COST:
                return None
            surplus = _remove_surplus(instance, views, share, workload_rps)
            if surplus > ROUNDING * workload_rps and instance.objective is Objective.COST:
                return None
    residents: list[list[Resident]] = [[] for _ in patterns]
    for of_class in slots.values():
        for slot in of_class:
            if slot.rate_rps > 0.0:
                residents[slot.gpu].append(Resident(slot.workload, slot.batch, slot.rate_rps))
    return [sorted(gpu_residents, key=lambda r: (r.workload, r.batch, r.rate_rps)) for gpu_residents in residents]


def _by_copy(slots: list[_ServedSlot], copies: int, workload_rps: float) -> list[list[_ServedSlot]]:
    """Cover one copy after another by the largest slots left, then the smallest that completes it; drop the others."""
    unassigned = sorted(slots, key=lambda slot: slot.rate_rps)
    shares: list[list[_ServedSlot]] = []
    for _ in range(copies):
        share: list[_ServedSlot] = []
        missing_rps = workload_rps * (1.0 - ROUNDING)
        while unassigned and missing_rps > 0.0:
            completing = [i for i, slot in enumerate(unassigned) if slot.rate_rps >= missing_rps]
            slot = unassigned.pop(completing[0] if share and completing else -1)
            share.append(slot)
            missing_rps -= slot.rate_rps
        shares.append(share)
    for slot in unassigned:
        slot.rate_rps = 0.0
    return shares


def _remove_surplus(instance: Instance, views: Sequence[View], share: list[_ServedSlot], workload_rps: float) -> float:
    """Lower or drop slots, smallest first, until they serve at most ``workload_rps``; return the excess that remains.

    Under ``assembly`` a batch that fills more slowly may violate the SLO. Such a slot keeps its rate under ``cost`` and
    is dropped under ``goodput``.
    """
    surplus = sum(slot.rate_rps for slot in share) - workload_rps
    for slot in sorted(share, key=lambda slot: slot.rate_rps):
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
    before, after = view.budget_ms(slot.workload, slot.batch, np.array([slot.rate_rps, rate_rps]))
    return bool(after >= before)

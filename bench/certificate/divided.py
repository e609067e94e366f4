"""Worth of slots that serve parts of workloads: of one slot, and of all slots on one GPU.

The worth of a slot follows from its batch and its GPU time; its rate is not searched. Several slots of a plan serve a
workload of rate R, and each receives some of its requests. Let e be the rate at which requests arrive at one slot. Then
``e <= R``, and the e of all slots of the workload sum to R. In a feasible plan, every slot meets two conditions.

- Its GPU time is within its budget at the rate e, hence at most the largest budget at any rate up to R. The budget of
  ``assembly`` is ``min(SLO - 1000 (b - 1) / r, 1000 b / r)`` at the rate r. It grows up to the rate
  ``1000 (2 b - 1) / SLO`` and falls beyond. The budgets of ``half-slo`` and ``duty-cycle`` are constant up to
  ``2000 b / SLO`` or a higher rate, and fall beyond. So all three budgets are largest at ``1000 (2 b - 1) / SLO``, or
  at R if R is lower.
- e is at most the batch divided by its period. The period is the latency buffer times the sum of two times: the GPU
  time, and the part of the transfer that delays the next batch.

So a slot serves at most the part ``e / R <= 1`` of its workload, rounded down to whole steps under ``goodput``. The
slots of a class on one GPU are worth at most as much as the workloads of the class, because no workload is served more
than once.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bench.certificate.one_gpu import ROUNDING
from bench.certificate.patterns import RATE_MARGIN
from instances import PART_STEPS, Objective, SloRule
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.tables import Tables
from instances.tolerance import MARGIN
from instances.view import View

PART_MARGIN = 2.0 * RATE_MARGIN
"""Relative increase of the part that a slot serves: one ``RATE_MARGIN`` for the rates, and one for the budgets."""


class DividedClasses(NamedTuple):
    """Classes of identical workloads that may be divided among slots, on one GPU type; sorted by model.

    Attributes
    ----------
    of_class, model
        Class and model row, shape (classes,).
    worth, most_worth_on_gpu
        Worth of one whole workload, above 0, and largest worth of all slots of the class on one GPU, shape (classes,).
    limit_ms
        Longest GPU time of a slot, shape (classes, largest batch + 1); -inf at impossible batches.
    whole_rate_ms
        Longest sum of GPU time and delay at which a slot still serves its workload's whole rate, same shape.
    delay_ms
        Part of a batch's transfer that delays the next batch, same shape.
    steps
        Number of equal steps of a workload's rate if a slot serves whole steps; 0 if it may serve any part.
    """

    of_class: Ints
    model: Ints
    worth: Ints
    most_worth_on_gpu: Ints
    limit_ms: Floats
    whole_rate_ms: Floats
    delay_ms: Floats
    steps: int


def divided_on(view: View, worth: Mapping[int, int], member: Ints, copies: Ints) -> DividedClasses:
    """Return the classes with a worth above 0, with the limits of their slots on the GPU type of ``view``.

    ``worth`` is the worth of one whole workload, by class. ``member`` and ``copies`` are those of ``Statement``.
    """
    tables, instance = view.tables, view.instance
    valued = sorted(
        (class_ for class_, class_worth in worth.items() if class_worth > 0),
        key=lambda class_: int(view.model[member[class_]]),
    )
    batch = np.arange(1, tables.transfer_ms.shape[1])
    limit_ms = np.full((len(valued), len(batch) + 1), -np.inf)
    whole_rate_ms, delay_ms = np.zeros_like(limit_ms), np.zeros_like(limit_ms)
    delays = tables.exposed_ms if instance.slo_rule is SloRule.HALF_SLO else tables.transfer_ms
    for row, class_ in enumerate(valued):
        workload = int(member[class_])
        model = int(view.model[workload])
        slo_ms = float(view.slo_ms[workload])
        rate_rps = float(view.rate_rps[workload])
        possible = batch <= tables.max_batch[model]
        possible_batches = batch[possible]
        rate_of_largest_budget_rps = np.minimum(
            rate_rps * (1.0 + RATE_MARGIN), 1000.0 * (2.0 * possible_batches - 1.0) / slo_ms
        )
        limit_ms[row, 1:][possible] = (
            view.budget_ms(workload, possible_batches, rate_of_largest_budget_rps) + MARGIN * slo_ms
        )
        whole_rate_ms[row, 1:] = 1000.0 * batch / (rate_rps * instance.latency_buffer) * (1.0 + PART_MARGIN)
        delay_ms[row] = delays[model]
    return DividedClasses(
        np.array(valued, dtype=np.int64),
        view.model[member[valued]],
        np.array([worth[class_] for class_ in valued], dtype=np.int64),
        np.array(
            [worth[class_] * min(int(copies[class_]), tables.most_residents) for class_ in valued], dtype=np.int64
        ),
        limit_ms,
        whole_rate_ms,
        delay_ms,
        PART_STEPS if instance.objective is Objective.GOODPUT else 0,
    )


@compiled
def slot_worth(divided: DividedClasses, row: int, batch: int, time_ms: float) -> int:
    """Return the worth of a slot whose batches take ``time_ms``, rounded up; 0 if it serves nothing."""
    if not time_ms <= divided.limit_ms[row, batch]:
        return 0
    served_part = min(1.0, divided.whole_rate_ms[row, batch] / (time_ms + divided.delay_ms[row, batch]))
    if divided.steps:
        return (divided.worth[row] * int(served_part * divided.steps) + divided.steps - 1) // divided.steps
    if served_part == 1.0:
        return divided.worth[row]
    return int(np.ceil(divided.worth[row] * served_part * (1.0 + ROUNDING)))


@compiled
def served_alone(tables: Tables, divided: DividedClasses, row: int) -> bool:
    """Return whether a slot of class ``row`` can serve requests when it is alone on a GPU."""
    model = divided.model[row]
    for batch in range(1, tables.max_batch[model] + 1):
        if tables.memory_mib[model, batch] <= tables.memory_limit_mib * (1.0 + MARGIN):
            for units in tables.permitted:
                time_ms = gpu_time_ms(tables, model, batch, units, 1, 0.0, 0.0, tables.power_w[model, batch, units])
                if slot_worth(divided, row, batch, time_ms) > 0:
                    return True
    return False


@compiled
def worth_of_slots(tables: Tables, divided: DividedClasses, rows: Ints, batch: Ints, units: Ints) -> int:
    """Return the worth of slots on one GPU, at most ``divided.most_worth_on_gpu`` for each class.

    It is -1 if the slots do not fit or one of them serves nothing.
    """
    slot_count, worth, memory = len(rows), 0, 0.0
    if units.sum() > tables.share_units or slot_count > tables.most_residents:
        return -1
    models = divided.model[rows]
    times_ms = np.empty(slot_count)
    worth_by_class = np.zeros(len(divided.model), dtype=np.int64)
    gpu_times_ms(tables, models, batch, units, slot_count, times_ms)
    for i in range(slot_count):
        memory += tables.memory_mib[models[i], batch[i]]
        added_worth = slot_worth(divided, rows[i], batch[i], times_ms[i])
        if added_worth == 0:
            return -1
        worth_by_class[rows[i]] += added_worth
    for class_row in range(len(worth_by_class)):
        worth += min(worth_by_class[class_row], divided.most_worth_on_gpu[class_row])
    return worth if memory <= tables.memory_limit_mib * (1.0 + MARGIN) else -1

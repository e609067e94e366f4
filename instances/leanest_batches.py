"""Least shares of the batches that need the least share under the SLO rule ``attainment``, without those of the others.

Whether a slot meets the rule at a share takes some 30 microseconds, and a workload may have 128 batches. A batch needs
at least the share at which its server keeps up with the requests and the full batch is within the SLO, which is found
at once. Batches are tried in the order of that share, until it exceeds the share of the leanest batches so far.
"""

from bisect import insort
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.attainment_table import BudgetTable
from instances.view import View

ROUNDING = 1e-9
"""Relative tolerance of the first shares, which must not be too large."""


def leanest_shares(
    view: View, group: Ints, workload: Ints, batch: Ints, rate_rps: Floats, most: int, always: Flags | None = None
) -> Ints:
    """Return the least share at which each slot meets the rule alone on a GPU, in units, shape (slots,).

    It is exact for the ``most`` slots of each group with the least shares, for equal ones and where ``always`` is true.
    The share of another slot may be too small, but is larger than those. It is ``share_units + 1`` if no share is
    enough. Decoding workloads have shares of 0: their budgets take no time. All arrays have the shape (slots,).

    Parameters
    ----------
    group
        Number of the slot's group, such as a workload at one of its rates; groups ascend.
    workload, batch, rate_rps
        Position of the workload in the instance, and batch and rate of the slot.
    """
    whole = np.flatnonzero(view.steps[workload] == 0)
    units, rows = np.zeros_like(workload), workload[whole]
    slots = LoneSlots(view.model[rows], view.slo_ms[rows], view.rate_rps[rows], batch[whole], rate_rps[whole])
    exact = np.zeros(len(whole), dtype=bool) if always is None else always[whole]
    table, shares = view.attainment_table(), view.tables.permitted
    position = _first_positions(table, slots)
    first = np.searchsorted(group[whole], np.arange(group.max(initial=-1) + 2)).tolist()
    for start, end in pairwise(first):
        leanest: list[int] = []
        for slot in (start + np.argsort(position[start:end], kind="stable")).tolist():
            at_most = len(shares) - 1 if exact[slot] or len(leanest) < most else leanest[most - 1]
            model, slo_ms, arriving_rps, size, slot_rps = (column[slot].item() for column in slots)
            known_range = int(position[slot]), at_most
            position[slot] = table.least_meeting_share(model, slo_ms, arriving_rps, size, slot_rps, known_range)
            insort(leanest, int(position[slot]))
    units[whole] = np.append(shares, view.tables.share_units + 1)[position]
    return units


def each_batch(largest_batch: Ints) -> tuple[Ints, Ints]:
    """Return every batch from 1 to the largest one at each position: the positions, ascending, and the batches."""
    position = np.repeat(np.arange(len(largest_batch)), largest_batch)
    first = np.cumsum(largest_batch) - largest_batch
    return position, np.arange(len(position)) - first[position] + 1


def least_fractions(view: View, scale: float) -> Floats:
    """Return a lower bound on the fraction of a GPU that each workload needs at ``scale`` times its rate.

    It counts only the mean rate and the time of a full batch, so it takes milliseconds. It is 0 for decoding workloads,
    and infinite for a workload that no share serves. Shape (workloads,).
    """
    workload = np.flatnonzero(view.steps == 0)
    fraction = np.zeros(len(view.steps))
    fraction[workload] = np.inf
    position, batch = each_batch(view.tables.max_batch[view.model[workload]])
    rows = workload[position]
    rate_rps = scale * view.rate_rps[rows]
    slots = LoneSlots(view.model[rows], view.slo_ms[rows], rate_rps, batch, rate_rps)
    share = np.append(view.tables.permitted / view.tables.share_units, np.inf)
    np.minimum.at(fraction, rows, share[_first_positions(view.attainment_table(), slots)])
    return fraction


class LoneSlots(NamedTuple):
    """Slots on a GPU type, each alone; arrays of shape (slots,).

    Attributes
    ----------
    model, slo_ms, arriving_rps
        Row of the workload's DNN model in the tables, and SLO and rate of the workload.
    batch, rate_rps
        Batch and rate of the slot.
    """

    model: Ints
    slo_ms: Floats
    arriving_rps: Floats
    batch: Ints
    rate_rps: Floats


def _first_positions(table: BudgetTable, slots: LoneSlots) -> Ints:
    """Return the position of the first share at which a full batch alone is in time and fast enough for the rate."""
    shares, position = table.tables.permitted, np.zeros(len(slots.batch), dtype=np.int64)
    for model, batch in set(zip(slots.model.tolist(), slots.batch.tolist(), strict=True)):
        same = np.flatnonzero((slots.model == model) & (slots.batch == batch))
        times = table.batch_times(model, batch)
        alone_ms = times.alone_ms[batch, shares]  # falls with the share
        busy_ms = 1000.0 * batch / (slots.rate_rps[same] * (1.0 - table.terms.may_miss))
        limit_ms = np.minimum(slots.slo_ms[same] - times.transfer_ms[batch], busy_ms - times.exposed_ms[batch])
        fits = np.searchsorted(alone_ms[::-1], limit_ms * (1.0 + np.sign(limit_ms) * ROUNDING), side="right")
        position[same] = len(shares) - fits
    return position

"""Routing of requests among the slots of a workload, in proportion to their planned rates."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled


class Routing(NamedTuple):
    """Slots of every workload.

    Attributes
    ----------
    first, slot
        The slots of workload w are ``slot[first[w]]`` to ``slot[first[w + 1] - 1]``.
    part
        Planned fraction of the workload's requests for each slot, in the order of ``slot``.
    credit
        Planned number of requests so far minus the actual number, in the order of ``slot``.
    """

    first: Ints
    slot: Ints
    part: Floats
    credit: Floats


def routing_of(workloads: int, workload: Ints, rate_rps: Floats) -> Routing:
    """Return the routing of requests to slots.

    Parameters
    ----------
    workloads
        Number of workloads.
    workload, rate_rps
        Workload and planned rate of each slot, shape (slots,).
    """
    slot = np.argsort(workload, kind="stable").astype(np.int64)
    first = np.searchsorted(workload[slot], np.arange(workloads + 1)).astype(np.int64)
    total = np.zeros(workloads)
    np.add.at(total, workload, rate_rps)
    return Routing(first, slot, rate_rps[slot] / total[workload[slot]], np.zeros(len(slot)))


@compiled
def next_slot(routing: Routing, workload: int) -> int:
    """Return the slot of a workload's next request by smooth weighted round robin, or -1 if it has no slot."""
    best = -1
    for i in range(routing.first[workload], routing.first[workload + 1]):
        routing.credit[i] += routing.part[i]
        if best < 0 or routing.credit[i] > routing.credit[best]:
            best = i
    if best < 0:
        return -1
    routing.credit[best] -= 1.0
    return routing.slot[best]


@compiled
def spread(routing: Routing, workload: int, slots: Ints) -> None:
    """Write the slot of each of the next ``len(slots)`` requests of a workload."""
    for i in range(len(slots)):
        slots[i] = next_slot(routing, workload)

"""Routing of requests among the slots of a workload, in proportion to their planned rates: in turns or at random.

With turns, the requests of a slot come more evenly than those of its workload. At random, each request goes to a slot
independently of the others, as the rule ``attainment`` assumes.
"""

from typing import NamedTuple

import numpy as np

from bench.simulation.random_numbers import mixed, uniform
from instances.arrays import Floats, Ints
from instances.compiled import compiled

TURNS = -1
"""Seed that stands for routing in turns."""


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
    sent
        Number of requests of each workload so far.
    seed
        Seed of random routing; ``TURNS`` for routing in turns.
    """

    first: Ints
    slot: Ints
    part: Floats
    credit: Floats
    sent: Ints
    seed: int


def routing_of(workloads: int, workload: Ints, rate_rps: Floats, seed: int = TURNS) -> Routing:
    """Return the routing of requests to slots.

    Parameters
    ----------
    workloads
        Number of workloads.
    workload, rate_rps
        Workload and planned rate of each slot, shape (slots,).
    seed
        Seed of random routing; ``TURNS`` for routing in turns.
    """
    slot = np.argsort(workload, kind="stable").astype(np.int64)
    first = np.searchsorted(workload[slot], np.arange(workloads + 1)).astype(np.int64)
    total = np.zeros(workloads)
    np.add.at(total, workload, rate_rps)
    return Routing(
        first,
        slot,
        rate_rps[slot] / total[workload[slot]],
        np.zeros(len(slot)),
        np.zeros(workloads, dtype=np.int64),
        seed,
    )


@compiled
def next_slot(routing: Routing, workload: int) -> int:
    """Return the slot of a workload's next request, or -1 if the workload has no slot.

    Turns are those of smooth weighted round robin. At random, the seed, the workload and the number of the request
    determine the slot.
    """
    if routing.seed >= 0:
        state = mixed(np.uint64(routing.seed) + np.uint64(0xD1B54A32D192ED03))
        state = mixed(mixed(state + np.uint64(workload)) + np.uint64(routing.sent[workload]))
        routing.sent[workload] += 1
        remaining, chosen = uniform(state), -1
        for i in range(routing.first[workload], routing.first[workload + 1]):
            if remaining > 0.0:
                chosen = i
            remaining -= routing.part[i]
        return chosen if chosen < 0 else routing.slot[chosen]
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

"""Open-loop load generator: it sends each request at its scheduled time, even if earlier ones are not served yet."""

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from bench.replay.process import Channel, Clock, Message, end_with, go_first, run_child, stay_on
from bench.replay.recording import DROPPED, NO_SLOT, SharedRequests
from bench.simulation.routing import routing_of, spread
from instances.arrays import Records

SENT = struct.Struct("<II")
"""Message to a worker about a request: its number, and the position of its slot in the executor."""


def routes(slots: Sequence[tuple[int, int, float]], requests: Records) -> list[Iterator[int]]:
    """Return the slots of each workload's requests, by the routing of a simulation.

    Parameters
    ----------
    slots
        Number, workload and planned rate of each slot of a serving plan.
    requests
        All requests, as records of ``REQUEST``.
    """
    counts = np.bincount(requests["workload"], minlength=1 + max(workload for _, workload, _ in slots))
    number, workload, rate_rps = map(np.array, zip(*slots, strict=True))
    routing, found = routing_of(len(counts), workload, rate_rps), []
    for w, count in enumerate(counts):
        at = np.empty(count, dtype=np.int64)
        spread(routing, w, at)
        found.append(iter(np.where(at < 0, NO_SLOT, number[at]).tolist()))
    return found


def send(
    shared: SharedRequests,
    routes: Sequence[Sequence[Iterator[int]]],
    deliver: Callable[[int, int], None],
    leave: Callable[[int], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Send all requests.

    Parameters
    ----------
    shared
        The requests, and the number of the active serving plan.
    routes
        Slots of the requests, by serving plan and workload.
    deliver
        Function that sends a request to a slot.
    leave
        Function that closes a serving plan, which then gets no more requests.
    clock, sleep
        Functions that return the time since the beginning of the replay, and wait, in ms.
    """
    requests = shared.requests
    sent_ms, slots, outcomes = requests["sent_ms"], requests["slot"], requests["outcome"]
    plan = 0
    for request, (due_ms, workload) in enumerate(
        zip(requests["due_ms"].tolist(), requests["workload"].tolist(), strict=True)
    ):
        # The schedule is absolute: a late request does not delay the requests after it.
        while (wait_ms := due_ms - clock()) > 0.0:
            sleep(wait_ms)
        if shared.plan != plan:
            leave(plan)
            plan = shared.plan
        slot = next(routes[plan][workload])
        if slot == NO_SLOT:
            outcomes[request] = DROPPED
        else:
            deliver(request, slot)
        slots[request] = slot
        sent_ms[request] = clock()


def main(channel: Channel, messages: Iterator[Message]) -> None:
    """Send the requests of the driver's order, and end after the last one."""
    order = next(messages)
    stay_on(order["cores"])
    shared = SharedRequests(order["requests"])
    inboxes: list[dict[int, int]] = [dict(plan) for plan in order["inboxes"]]
    descriptor = {executor: fd for plan in inboxes for executor, fd in plan.items()}
    for fd in descriptor.values():
        os.set_blocking(fd, False)
    places: list[tuple[int, int]] = order["places"]

    def deliver(request: int, slot: int) -> None:
        executor, place = places[slot]
        # Requests stay unserved if their worker died or is tens of thousands of requests behind.
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(descriptor[executor], SENT.pack(request, place))

    def leave(plan: int) -> None:
        for fd in inboxes[plan].values():
            os.close(fd)

    of_plans = [routes(slots, shared.requests) for slots in order["slots"]]
    channel.say(ready=True)
    clock = Clock(next(messages)["zero_ns"])
    end_with(messages)
    go_first()
    send(shared, of_plans, deliver, leave, clock, lambda wait_ms: time.sleep(wait_ms / 1000.0))


if __name__ == "__main__":
    run_child(main)

"""Open-loop load generator: it sends each request at its scheduled time, even if earlier ones are not served yet."""

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from bench.replay.process import Channel, Clock, Message, end_with, go_first, run_child, stay_on
from bench.replay.recording import DROPPED, NO_SLOT, SharedRequests

SENT = struct.Struct("<II")
"""Message to a worker about a request: its number, and the position of its slot in the executor."""


class Route:
    """Routing of one workload's requests to its slots in proportion to their planned rates.

    It is the smooth weighted round robin of ``bench.simulation.routing``. A slot is a number and a planned rate.
    """

    def __init__(self, slots: Sequence[tuple[int, float]]) -> None:
        total = sum(rate for _, rate in slots)
        self._slots = [slot for slot, _ in slots]
        self._parts = [rate / total for _, rate in slots]
        self._credit = [0.0] * len(slots)

    def next(self) -> int:
        """Return the slot of the next request, or ``NO_SLOT`` if the workload has no slot."""
        if not self._slots:
            return NO_SLOT
        self._credit = [credit + part for credit, part in zip(self._credit, self._parts, strict=True)]
        best = self._credit.index(max(self._credit))
        self._credit[best] -= 1.0
        return self._slots[best]


def send(
    shared: SharedRequests,
    routes: Sequence[Sequence[Route]],
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
        Routing of the requests, by serving plan and workload.
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
        slot = routes[plan][workload].next()
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

    routes = [[Route(slots) for slots in plan] for plan in order["routes"]]
    channel.say(ready=True)
    clock = Clock(next(messages)["zero_ns"])
    end_with(messages)
    go_first()
    send(shared, routes, deliver, leave, clock, lambda wait_ms: time.sleep(wait_ms / 1000.0))


if __name__ == "__main__":
    run_child(main)

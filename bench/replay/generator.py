"""Open-loop load generator: it sends each request at its scheduled time, even if earlier requests still wait."""

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from bench.replay.process import Channel, Clock, Message, end_when_closed, pin_to_cores, raise_priority, run_child
from bench.replay.recording import DROPPED, NO_SLOT, SharedRequests
from bench.simulation.routing import TURNS, routing_of, spread
from instances.arrays import Records

SENT = struct.Struct("<II")
"""Message to a worker about a request: its number, and the position of its slot in the executor."""


def routes(slots: Sequence[tuple[int, int, float]], requests: Records, seed: int = TURNS) -> list[Iterator[int]]:
    """Return an iterator for each workload that yields the number of the slot of each of its requests.

    The number is ``NO_SLOT`` for a request that no slot serves. The routing is that of a simulation.

    Parameters
    ----------
    slots
        Number, workload and planned rate of each slot of a serving plan.
    requests
        All requests, as records of ``REQUEST``.
    seed
        Seed of random routing; ``TURNS`` for routing in turns.
    """
    counts = np.bincount(requests["workload"], minlength=1 + max(workload for _, workload, _ in slots))
    number, workload, rate_rps = map(np.array, zip(*slots, strict=True))
    routing, routes_by_workload = routing_of(len(counts), workload, rate_rps, seed), []
    for workload_index, count in enumerate(counts):
        index_of_slot = np.empty(count, dtype=np.int64)
        spread(routing, workload_index, index_of_slot)
        routes_by_workload.append(iter(np.where(index_of_slot < 0, NO_SLOT, number[index_of_slot]).tolist()))
    return routes_by_workload


def send(
    shared: SharedRequests,
    routes_of_plans: Sequence[Sequence[Iterator[int]]],
    deliver: Callable[[int, int], None],
    close_plan: Callable[[int], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Send all requests.

    Parameters
    ----------
    shared
        The requests, and the number of the active serving plan.
    routes_of_plans
        Slots of the requests, by serving plan and workload.
    deliver
        Function that sends a request to a slot.
    close_plan
        Function that closes a serving plan; the plan then gets no more requests.
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
            close_plan(plan)
            plan = shared.plan
        slot = next(routes_of_plans[plan][workload])
        if slot == NO_SLOT:
            outcomes[request] = DROPPED
        else:
            deliver(request, slot)
        slots[request] = slot
        sent_ms[request] = clock()


def main(channel: Channel, messages: Iterator[Message]) -> None:
    """Send the requests of the driver's order, and end after the last request."""
    order = next(messages)
    pin_to_cores(order["cores"])
    shared = SharedRequests(order["requests"])
    inboxes: list[dict[int, int]] = [dict(plan) for plan in order["inboxes"]]
    inbox_of_executor = {executor: fd for plan in inboxes for executor, fd in plan.items()}
    for fd in inbox_of_executor.values():
        os.set_blocking(fd, False)
    executor_and_position: list[tuple[int, int]] = order["places"]

    def deliver(request: int, slot: int) -> None:
        executor, position = executor_and_position[slot]
        # The pipe is closed if the worker died, and full if the worker is tens of thousands of requests late.
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(inbox_of_executor[executor], SENT.pack(request, position))

    def close_plan(plan: int) -> None:
        for fd in inboxes[plan].values():
            os.close(fd)

    routes_of_plans = [
        routes(slots, shared.requests, seed) for slots, seed in zip(order["slots"], order["routing_seeds"], strict=True)
    ]
    channel.say(ready=True)
    clock = Clock(next(messages)["zero_ns"])
    end_when_closed(messages)
    raise_priority()
    send(shared, routes_of_plans, deliver, close_plan, clock, lambda wait_ms: time.sleep(wait_ms / 1000.0))


if __name__ == "__main__":
    run_child(main)

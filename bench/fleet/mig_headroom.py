"""Headroom of plans on MIG instances: a latency buffer with which the plan holds under random arrivals.

The rule ``half-slo`` of MIG instances does not consider queues, so its plans may be late under random arrivals. The
scheduler multiplies every latency by the latency buffer, and so plans lower loads and smaller batches.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from bench.fleet.solving import solved_here
from instances import Instance, Plan

BUFFERS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0)
"""Latency buffers that are tried, ascending."""


def with_headroom(instance: Instance, seconds: float, holds: Callable[[Plan, Instance], bool]) -> Instance | None:
    """Return the instance with the least buffer of ``BUFFERS`` whose plan holds, or ``None`` if there is none in time.

    Parameters
    ----------
    seconds
        Time limit of all solves and tests together; a test that has begun is finished.
    holds
        Test whether a plan holds.
    """
    deadline = time.monotonic() + seconds
    for buffer in BUFFERS:
        left_s = deadline - time.monotonic()
        if left_s <= 0.0:
            break
        buffered = replace(instance, latency_buffer=buffer)
        plan = solved_here(buffered, left_s).plan
        if plan is None:
            break
        if holds(plan, buffered):
            return buffered
    return None

"""Run with a live worker, and the times at which the bench reads its messages or kills it."""

import math
import time
from dataclasses import dataclass

from bench.runner.record import RunRecord
from bench.runner.scoring import Start
from bench.runner.worker_limits import ControlGroup
from bench.runner.worker_process import Worker

_READ_INTERVAL_S, _READ_INTERVAL_PART = 0.02, 0.05
"""Longest time between two reads of a worker's messages: these seconds, or this part of the elapsed time if larger."""

_REFILL_S = 0.1
"""Time in which a worker can write its next message after the bench has emptied the full pipe."""


@dataclass
class ActiveRun:
    """Run with a live worker. All times are on the monotonic clock."""

    record: RunRecord
    worker: Worker
    control_group: ControlGroup | None
    """Control group that limits the worker as a whole; ``None`` if each of its processes limits itself."""
    start: Start
    worker_started_at: float
    """Time at which the bench began to start the worker."""
    startup_limit_s: float
    attempt: int
    ordered_at: float
    """Time of the order for the run or, for a scenario set, for the latest chunk."""
    emptied_at: float = -math.inf
    """Recent time at which the bench had read everything that the worker had sent."""

    @property
    def kill_at(self) -> float:
        """Time at which the run is killed."""
        if self.record.pausing:
            return math.inf
        if self.record.improving and self.record.then_started is not None:
            return self.record.then_started + self.record.task.then_limit_s + self.record.grace_s
        started = self.record.clock_started
        if started is None:
            return self.ordered_at + self.startup_limit_s
        return started + self.record.task.time_limit_s + self.record.grace_s

    @property
    def read_at(self) -> float:
        """Time by which the bench reads the messages again."""
        elapsed_s = self.elapsed_s
        if elapsed_s is None or self.record.pausing:
            return math.inf
        return time.monotonic() + max(_READ_INTERVAL_S, _READ_INTERVAL_PART * elapsed_s)

    def record_emptied(self, read_at_s: float) -> None:
        """Record that at ``read_at_s`` the bench had read everything that the worker had sent.

        ``unread_since`` becomes the time before this one: a message that waited for the full pipe may be older than
        this reading. Readings within ``_REFILL_S`` of the recorded time are ignored.
        """
        if read_at_s >= self.emptied_at + _REFILL_S:
            self.record.unread_since, self.emptied_at = self.emptied_at, read_at_s

    def end(self) -> None:
        """Kill the worker with all processes that it started."""
        if self.control_group is not None:
            self.control_group.kill()
        self.worker.end()
        if self.control_group is not None:
            self.control_group.remove()

    @property
    def elapsed_s(self) -> float | None:
        """Seconds since the clock started, or ``None`` before."""
        started = self.record.clock_started
        return None if started is None else time.monotonic() - started

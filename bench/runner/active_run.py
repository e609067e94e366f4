"""Run with a live worker, and the times by which the bench looks for its messages or kills it."""

import math
import time
from dataclasses import dataclass

from bench.runner.record import RunRecord
from bench.runner.scoring import Start
from bench.runner.worker_limits import ControlGroup
from bench.runner.worker_process import Worker

_LOOK_S, _LOOK_PART = 0.02, 0.05
"""Longest time between two looks for a scheduler's messages: the larger of these seconds and this part of its time."""

_REFILL_S = 0.1
"""Time that a worker whose pipe was full may need to write the waiting message after the bench has read the pipe."""


@dataclass
class ActiveRun:
    """A run with a live worker."""

    record: RunRecord
    worker: Worker
    group: ControlGroup | None
    """Control group that limits the worker as a whole; ``None`` if each of its processes limits itself."""
    start: Start
    asked_at: float
    """Start of the worker; this and all other times are on the monotonic clock."""
    startup_limit_s: float
    attempt: int
    ordered_at: float
    """Time of the order for the run or, for a scenario set, for the latest chunk."""
    emptied_at: float = -math.inf
    """A recent time at which the bench had read all that the worker had sent."""

    @property
    def kill_at(self) -> float:
        """Time at which the run is killed."""
        if self.record.pausing:
            return math.inf
        started = self.record.clock_started
        if started is None:
            return self.ordered_at + self.startup_limit_s
        return started + self.record.task.time_limit_s + self.record.grace_s

    @property
    def look_at(self) -> float:
        """Time by which the bench looks for messages."""
        elapsed_s = self.elapsed_s
        if elapsed_s is None or self.record.pausing:
            return math.inf
        return time.monotonic() + max(_LOOK_S, _LOOK_PART * elapsed_s)

    def note_emptied(self, at: float) -> None:
        """Note that the bench had read all that the worker had sent by ``at``."""
        if at >= self.emptied_at + _REFILL_S:
            self.record.quiet_at, self.emptied_at = self.emptied_at, at

    def end(self) -> None:
        """Kill the worker with all processes that it started."""
        if self.group is not None:
            self.group.kill()
        self.worker.end()
        if self.group is not None:
            self.group.remove()

    @property
    def elapsed_s(self) -> float | None:
        """Seconds since the clock started, or ``None`` before."""
        started = self.record.clock_started
        return None if started is None else time.monotonic() - started

"""Batch turns in real time, by the rules of ``bench.simulation.engine``."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class SlotQueue:
    """Who waits for one slot.

    Attributes
    ----------
    batch, timeout_ms, slo_ms
        Of the slot.
    one_ms, full_ms
        What a batch of one and a full one take, as measured; others are taken to lie on the line between.
    waiting
        Number and due time of each request, in the order of time.
    """

    batch: int
    timeout_ms: float
    slo_ms: float
    one_ms: float
    full_ms: float
    waiting: deque[tuple[int, float]] = field(default_factory=deque)

    @property
    def ready_ms(self) -> float:
        """When its next batch is ready: full, or its oldest request has waited for the timeout."""
        if not self.waiting:
            return inf
        ready_ms = self.waiting[0][1] + self.timeout_ms
        if len(self.waiting) >= self.batch:
            ready_ms = min(ready_ms, self.waiting[self.batch - 1][1])
        return ready_ms

    def promised_ms(self, size: int) -> float:
        """Return how long a batch of ``size`` takes."""
        part = (size - 1) / (self.batch - 1) if self.batch > 1 else 1.0
        return self.one_ms + (self.full_ms - self.one_ms) * part


class Turns:
    """The slots of one executor, which take turns: the batch that was ready first goes first.

    Parameters
    ----------
    lines
        One for each slot.
    dropping
        Whether requests that can no longer be in time are dropped when their batch starts.
    """

    def __init__(self, lines: Sequence[SlotQueue], dropping: bool) -> None:
        self.lines, self._dropping = lines, dropping

    def next(self) -> tuple[float, int]:
        """Return when the next batch is ready, infinity while nobody waits, and of which slot it is."""
        return min((line.ready_ms, place) for place, line in enumerate(self.lines))

    def take(self, place: int, now_ms: float) -> tuple[list[int], list[int]]:
        """Return the requests of a slot's batch that starts now, and those that are dropped.

        The batch is empty where nobody is left, or those left may wait for company, or another slot is first now.
        """
        line = self.lines[place]
        waiting = line.waiting
        dropped = []
        while (
            self._dropping
            and waiting
            and now_ms + line.promised_ms(min(len(waiting), line.batch)) > waiting[0][1] + line.slo_ms
        ):
            dropped.append(waiting.popleft()[0])
        if dropped:
            ready_ms, first = self.next()
            if ready_ms > now_ms or first != place:
                return [], dropped
        return [waiting.popleft()[0] for _ in range(min(len(waiting), line.batch))], dropped
